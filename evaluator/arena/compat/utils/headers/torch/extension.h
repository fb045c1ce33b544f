// Tensors and their Python bindings, as torch/extension.h gives them, without modules, optimisers, data loaders and
// autograd. Found before torch's own file of this name; see utils/short_headers.py.
#pragma once

#include <torch/types.h>

#include <torch/csrc/utils/pybind.h>
