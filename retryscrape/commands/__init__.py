"""Scrapy subcommands, a screenful each: arguments in, library called, exit code set."""
