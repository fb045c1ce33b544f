// Found before torch's own torch/all.h; see utils/short_headers.py.
#pragma once

#include <torch/extension.h>
