"""The playground as a Space of the Hub."""

from study.extras.playground.app import serve

serve()
