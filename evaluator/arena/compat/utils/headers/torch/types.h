// The tensor's types and short names, as torch/types.h gives them, without the declaration of every operator.
// Found before torch's own file of this name; see utils/short_headers.py.
#pragma once

// Makes torch's headers include the operators that they use, one by one, and not all.
#ifndef AT_PER_OPERATOR_HEADERS
#define AT_PER_OPERATOR_HEADERS
#endif

#include <ATen/DeviceGuard.h>
#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/irange.h>

#include <optional>

// Written for each source: the operators, factories and registrations that it names.
#include <named_by_the_source.h>

namespace torch {

using namespace at; // NOLINT
using std::nullopt;
using std::optional;

using Dtype = at::ScalarType;

constexpr auto kU8 = at::kByte, kUInt8 = at::kByte;
constexpr auto kI8 = at::kChar, kInt8 = at::kChar;
constexpr auto kI16 = at::kShort, kInt16 = at::kShort;
constexpr auto kI32 = at::kInt, kInt32 = at::kInt;
constexpr auto kI64 = at::kLong, kInt64 = at::kLong;
constexpr auto kU16 = at::kUInt16, kUInt16 = at::kUInt16;
constexpr auto kU32 = at::kUInt32, kUInt32 = at::kUInt32;
constexpr auto kU64 = at::kUInt64, kUInt64 = at::kUInt64;
constexpr auto kF16 = at::kHalf, kFloat16 = at::kHalf;
constexpr auto kF32 = at::kFloat, kFloat32 = at::kFloat;
constexpr auto kF64 = at::kDouble, kFloat64 = at::kDouble;

} // namespace torch
