"""A pipeline of the project's own."""


class CountingPipeline:
    """Numbers the items."""

    def __init__(self):
        self.count = 0

    def process_item(self, item):
        self.count += 1
        return {**item, "number": self.count}
