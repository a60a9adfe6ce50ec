"""Scrapy subcommands, a screenful each: parse arguments, call the library, print, set the exit code."""
