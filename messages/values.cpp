#include "messages/values.hpp"

#include <boost/pfr.hpp>

#include <bit>
#include <cassert>
#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace paceline::messages {
namespace {

// The wrappers below write fields that CAF 0.17 cannot write.

template <class T>
struct Optional {
  std::optional<T>& value;
};
template <class Inspector, class T>
Inspected inspect(Inspector& inspector, const Optional<T>& field) {
  bool there = field.value.has_value();
  if (Inspected wrong = inspect_all(inspector, there))
    return wrong;
  if (!there) {
    field.value.reset();
    return {};
  }
  if (!field.value)
    field.value.emplace();
  return inspect_all(inspector, *field.value);
}

/// Wraps the specification of a sequence, which all actors share. It never changes, so a copy is as
/// good as a reference.
struct Spec {
  speculation::SequenceSpecRef& value;
};
Inspected inspect(Writer& to, const Spec& field) {
  assert(field.value);
  speculation::SequenceSpec copy = *field.value;
  return inspect_all(to, copy);
}
Inspected inspect(Reader& from, const Spec& field) {
  auto copy = std::make_shared<speculation::SequenceSpec>();
  Inspected wrong = inspect_all(from, *copy);
  field.value = std::move(copy);
  return wrong;
}

/// Writes a floating-point number by its bits, the format that CAF 0.17 uses for finite ones; it
/// never ends writing an infinite one.
template <class Real>
struct Bits {
  using Number = std::conditional_t<sizeof(Real) == 4, std::uint32_t, std::uint64_t>;
  Real& value;
};
template <class Real>
Inspected inspect(Writer& to, const Bits<Real>& field) {
  auto bits = std::bit_cast<typename Bits<Real>::Number>(field.value);
  return inspect_all(to, bits);
}
template <class Real>
Inspected inspect(Reader& from, const Bits<Real>& field) {
  typename Bits<Real>::Number bits = 0;
  Inspected wrong = inspect_all(from, bits);
  field.value = std::bit_cast<Real>(bits);
  return wrong;
}

/// Wraps sampling::Warping::logit_bias, in which a token that is banned has an infinite bias.
struct Biases {
  std::vector<std::pair<TokenId, float>>& value;
};
Inspected inspect(Writer& to, const Biases& field) {
  std::vector<std::pair<TokenId, std::uint32_t>> bits;
  for (const auto& [token, bias] : field.value)
    bits.emplace_back(token, std::bit_cast<std::uint32_t>(bias));
  return inspect_all(to, bits);
}
Inspected inspect(Reader& from, const Biases& field) {
  std::vector<std::pair<TokenId, std::uint32_t>> bits;
  Inspected wrong = inspect_all(from, bits);
  field.value.clear();
  for (const auto& [token, bias] : bits)
    field.value.emplace_back(token, std::bit_cast<float>(bias));
  return wrong;
}

/// Wraps the constraint, which stays on its machine: a draft elsewhere draws in any form, and is
/// judged here.
struct Form {
  std::shared_ptr<const sampling::Constraint>& value;
};
Inspected inspect(Writer&, const Form&) {
  return {};
}
Inspected inspect(Reader&, const Form& field) {
  field.value = nullptr;
  return {};
}

template <class T>
T& as_field(T& field) {
  return field;
}
Bits<float> as_field(float& field) {
  return {field};
}
Bits<double> as_field(double& field) {
  return {field};
}
Biases as_field(std::vector<std::pair<TokenId, float>>& field) {
  return {field};
}
Form as_field(std::shared_ptr<const sampling::Constraint>& field) {
  return {field};
}
template <class T>
Optional<T> as_field(std::optional<T>& field) {
  return {field};
}
Spec as_field(speculation::SequenceSpecRef& field) {
  return {field};
}

/// Writes or reads every field in the order of declaration, so that none can be forgotten.
template <class Inspector, class Value>
Inspected inspect_fields(Inspector& inspector, Value& value) {
  return std::apply([&](auto&... field) { return inspect_all(inspector, as_field(field)...); },
                    boost::pfr::structure_tie(value));
}

} // namespace
} // namespace paceline::messages

#define DEFINE_INSPECT(space, Type)                                                                \
  paceline::messages::Inspected space::inspect(paceline::messages::Writer& to,                     \
                                               space::Type& value) {                               \
    return paceline::messages::inspect_fields(to, value);                                          \
  }                                                                                                \
  paceline::messages::Inspected space::inspect(paceline::messages::Reader& from,                   \
                                               space::Type& value) {                               \
    return paceline::messages::inspect_fields(from, value);                                        \
  }
PACELINE_VALUES(DEFINE_INSPECT)
PACELINE_VALUE_PARTS(DEFINE_INSPECT)
#undef DEFINE_INSPECT
