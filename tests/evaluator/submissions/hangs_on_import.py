while True:
    pass


def solution(tensor):
    return tensor
