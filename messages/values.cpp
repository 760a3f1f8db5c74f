#include "messages/values.hpp"

#include <boost/pfr.hpp>

#include <cassert>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

namespace paceline::messages {
namespace {

// Fields that CAF 0.17 does not know how to take.

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

/// What all actors share of a sequence never changes: a copy is as good as a reference.
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

template <class T>
T& as_field(T& field) {
  return field;
}
template <class T>
Optional<T> as_field(std::optional<T>& field) {
  return {field};
}
Spec as_field(speculation::SequenceSpecRef& field) {
  return {field};
}

/// Every field, in the order of their declaration: none can be forgotten.
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
