import headrace as hr


def make():
    return hr.App("payments")
