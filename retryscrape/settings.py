"""This project's own choices, and only those: everything else comes from the add-on."""

import gc
import os

# Looked through at every 700 new objects (Python's default), what is there costs a sixth of the
# start (what is imported is no garbage) and a fifth of a crawl. A command that has begun, and a
# crawl, let garbage wait for 20,000 (command.py, crawl/session.py).
gc.set_threshold(200_000, 20, 20)

BOT_NAME = "retryscrape"
SPIDER_MODULES = ["retryscrape.spiders"]
NEWSPIDER_MODULE = "retryscrape.spiders"

# All of retryscrape, switched on as in any other project.
ADDONS = {"retryscrape.addon.Retryscrape": 300}

# Our `crawl` sets the exit code. Never registered as an entry point: that would replace
# `crawl` in every project of the environment. Under Scrapyd (SCRAPY_PROJECT set) Scrapy's
# own stays, which is what Scrapyd starts. The module alone: the other commands come as
# entry points, which are loaded when they are used (entries.py).
if "SCRAPY_PROJECT" not in os.environ:
    COMMANDS_MODULE = "retryscrape.commands.crawl"

# Politeness is a default: robots.txt is obeyed, a host gets 4 requests at once, 0.25 s apart.
# https://docs.scrapy.org/en/latest/topics/settings.html
ROBOTSTXT_OBEY = True
CONCURRENT_REQUESTS = 32
CONCURRENT_REQUESTS_PER_DOMAIN = 4
DOWNLOAD_DELAY = 0.25

# Proxies are strangers.
DOWNLOAD_VERIFY_CERTIFICATES = True
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False

# A page that takes longer than half a minute is asked for again elsewhere (Scrapy: 180).
DOWNLOAD_TIMEOUT = 30
# Sizes are bounded: one page must not fill the memory (Scrapy: 1 GB).
DOWNLOAD_MAXSIZE = 128 * 1024 * 1024
DOWNLOAD_WARNSIZE = 0

LOG_LEVEL = "INFO"
