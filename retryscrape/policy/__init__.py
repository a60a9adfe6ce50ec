"""Pure decisions: what an answer means and what to do next.

Nothing here knows Scrapy, Twisted, Playwright, a file, a socket, a clock or a
random number generator of its own: times and generators are arguments.
"""
