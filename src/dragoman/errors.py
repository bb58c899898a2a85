"""The one exception that speaks to the user."""


class UserError(ValueError):
    """A mistake in what the user gave us: a file, an option, a setting.

    The message says what was wrong, where (file and line when there is one) and what to do. The command
    line prints it without a traceback and exits with status 2.
    """
