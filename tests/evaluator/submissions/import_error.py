import a_module_that_nobody_has


def solution(tensor):
    return tensor
