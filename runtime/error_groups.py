"""What Trio raises is grouped by nurseries; whoever reports to a person wants the one error inside."""


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of the group that is no group itself."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
