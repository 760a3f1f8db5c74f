// numpy arrays that own their numbers.
#pragma once

#include <algorithm>
#include <memory>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <span>

namespace paceline::python {

template <class Number>
using Array = nanobind::ndarray<nanobind::numpy, Number, nanobind::ndim<1>>;

template <class Number>
Array<Number> array_of(std::span<const Number> numbers) {
  auto copy = std::make_unique<Number[]>(numbers.size());
  std::copy(numbers.begin(), numbers.end(), copy.get());
  Number* const data = copy.release();
  nanobind::capsule owner(data, [](void* owned) noexcept { delete[] static_cast<Number*>(owned); });
  return Array<Number>(data, {numbers.size()}, owner);
}

} // namespace paceline::python
