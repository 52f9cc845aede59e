"""Finds the error inside the exception groups that Trio's nurseries raise, for reports to people."""


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Returns the first error of the group that is not a group itself."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
