"""What pyproject.toml cannot say: the package's own lists of URLs lie in urls/, beside it.

Committed, because scrapyd-deploy writes one of its own where there is none.
"""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["retryscrape*"]), "retryscrape.urls"],
    package_dir={"retryscrape.urls": "urls"},
)
