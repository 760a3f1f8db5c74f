#include "messages/values.hpp"

#include "messages/interfaces.hpp"

#include <boost/pfr.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

using namespace paceline;
using namespace paceline::messages;

namespace {

// Contents that no field has by itself, each its own: a field that somebody adds is filled too, and
// one of a type that is not here does not compile.

class Filler {
public:
  template <class T>
  requires std::is_arithmetic_v<T>
  void fill(T& field) { field = T(++count_); }
  void fill(bool& field) { field = !field; }
  template <class T>
  requires std::is_enum_v<T>
  void fill(T& field) { field = T(int(field) == 1 ? 2 : 1); }
  void fill(std::string& field) { field = "text " + std::to_string(++count_); }
  void fill(base::Duration& field) { field = std::chrono::nanoseconds(++count_); }
  void fill(base::TimePoint& field) { field = base::TimePoint(std::chrono::nanoseconds(++count_)); }
  template <class T>
  void fill(std::vector<T>& field) {
    field.resize(2);
    fill(field[0]);
    fill(field[1]);
  }
  template <class T, std::size_t size>
  void fill(std::array<T, size>& field) {
    for (T& element : field)
      fill(element);
  }
  template <class T, class U>
  void fill(std::pair<T, U>& field) {
    fill(field.first);
    fill(field.second);
  }
  template <class T>
  void fill(std::optional<T>& field) {
    fill(field.emplace());
  }
  void fill(std::shared_ptr<const sampling::Constraint>&) {} // stays on its machine
  template <class T>
  void fill(std::shared_ptr<const T>& field) {
    T content;
    fill(content);
    field = std::make_shared<const T>(std::move(content));
  }
  template <class T>
  requires std::is_aggregate_v<T>
  void fill(T& value) {
    boost::pfr::for_each_field(value, [this](auto& field) { fill(field); });
  }

private:
  int count_ = 100;
};

// Equality of everything that can be reached, and what differs: a path to the first field.

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T, std::size_t size>
struct IsVector<std::array<T, size>> : std::true_type {};
template <class T>
struct IsPair : std::false_type {};
template <class T, class U>
struct IsPair<std::pair<T, U>> : std::true_type {};
template <class T>
concept Pointing = requires(const T& held) {
  bool(held);
  *held;
};

template <class T>
std::string difference(const T& a, const T& b);

template <class Range>
std::string difference_of_elements(const Range& a, const Range& b) {
  if (a.size() != b.size())
    return ".size";
  for (std::size_t i = 0; i < a.size(); ++i)
    if (const std::string found = difference(a[i], b[i]); !found.empty())
      return "[" + std::to_string(i) + "]" + found;
  return {};
}

template <class Struct>
std::string difference_of_fields(const Struct& a, const Struct& b) {
  std::string found;
  boost::pfr::for_each_field(a, [&](const auto& field, auto index) {
    if (!found.empty())
      return;
    found = difference(field, boost::pfr::get<index>(b));
    if (!found.empty())
      found = "." + std::to_string(index) + found;
  });
  return found;
}

/// Empty: there is none.
template <class T>
std::string difference(const T& a, const T& b) {
  if constexpr (IsVector<T>::value) {
    return difference_of_elements(a, b);
  } else if constexpr (IsPair<T>::value) {
    const std::string found = difference(a.first, b.first);
    return found.empty() ? difference(a.second, b.second) : found;
  } else if constexpr (std::is_same_v<T, std::shared_ptr<const sampling::Constraint>>) {
    return a == b ? "" : " (constraint)";
  } else if constexpr (Pointing<T>) {
    if (!a || !b)
      return bool(a) == bool(b) ? "" : " (one has none)";
    return difference(*a, *b);
  } else if constexpr (std::is_aggregate_v<T>) {
    return difference_of_fields(a, b);
  } else {
    return a == b ? "" : " (contents)";
  }
}

/// What crosses a process: a whole message, of a type that the other side knows by its name.
class Crossing {
public:
  caf::message operator()(const caf::message& sent) {
    std::vector<char> bytes;
    caf::binary_serializer to(system_, bytes);
    caf::error wrong = to(const_cast<caf::message&>(sent));
    REQUIRE_MESSAGE(!wrong, system_.render(wrong));
    caf::message received;
    caf::binary_deserializer from(system_, bytes);
    wrong = from(received);
    REQUIRE_MESSAGE(!wrong, system_.render(wrong));
    REQUIRE(from.remaining() == 0);
    return received;
  }
  template <class Value>
  Value cross(const Value& sent) {
    const caf::message received = (*this)(caf::make_message(sent));
    REQUIRE(received.match_elements<Value>());
    return received.get_as<Value>(0);
  }

private:
  static caf::actor_system_config& configure(caf::actor_system_config& config) {
    config.set("scheduler.policy", caf::atom("testing"));
    return config.add_message_types<caf::id_block::paceline>();
  }

  caf::actor_system_config config_;
  caf::actor_system system_{configure(config_)};
};

template <class Value>
void check_crosses(Crossing& crossing) {
  Value sent{};
  Filler().fill(sent);
  if constexpr (!std::is_empty_v<Value>)
    REQUIRE(!difference(sent, Value{}).empty());
  CHECK(difference(sent, crossing.cross(sent)) == "");
}

template <class Message>
constexpr bool is_value = caf::detail::is_inspectable<Writer, Message>::value&&
                              caf::detail::is_inspectable<Reader, Message>::value &&
                          !caf::allowed_unsafe_message_type<Message>::value;
template <class Message>
constexpr bool is_local = !caf::detail::is_inspectable<Writer, Message>::value &&
                          !caf::detail::is_inspectable<Reader, Message>::value &&
                          caf::allowed_unsafe_message_type<Message>::value;

#define ASSERT_VALUE(space, Type) static_assert(is_value<space::Type>);
PACELINE_VALUES(ASSERT_VALUE)
#define ASSERT_LOCAL(space, Type) static_assert(is_local<space::Type>);
PACELINE_LOCALS(ASSERT_LOCAL)

struct InNeitherList {
  int number = 0;
};
static_assert(!messages::detail::declared<InNeitherList>);

} // namespace

TEST_CASE("every field of every value comes back from a crossing") {
  Crossing crossing;
#define CHECK_CROSSES(space, Type)                                                                 \
  SUBCASE(#Type) {                                                                                 \
    check_crosses<space::Type>(crossing);                                                          \
  }
  PACELINE_VALUES(CHECK_CROSSES)
}

TEST_CASE("a field that holds nothing comes back so") {
  Crossing crossing;
  CHECK(!crossing.cross(scheduling::Verdicts{}).error);
  const auto commits = crossing.cross(scheduling::Commits{{scheduling::Committed{}}});
  REQUIRE(commits.sequences.size() == 1);
  CHECK(!commits.sequences[0].started);
}

TEST_CASE("infinite numbers cross") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  Crossing crossing;
  messages::DraftFrom sent;
  sent.begins.emplace().warping.logit_bias = {{3, -infinity}, {4, infinity}, {5, -1.5f}};
  sent.begins->warping.temperature = infinity;
  messages::DraftWork work;
  work.sequences.push_back(sent);
  const auto received = crossing.cross(work);
  REQUIRE(received.sequences.size() == 1);
  REQUIRE(received.sequences[0].begins);
  CHECK(received.sequences[0].begins->warping.logit_bias == sent.begins->warping.logit_bias);
  CHECK(received.sequences[0].begins->warping.temperature == infinity);
}

TEST_CASE("bytes that end too early are an error") {
  std::vector<char> bytes;
  scheduling::Verdicts sent;
  Filler().fill(sent);
  caf::binary_serializer to(nullptr, bytes);
  REQUIRE(!to(sent));
  bytes.pop_back();
  caf::binary_deserializer from(nullptr, bytes);
  scheduling::Verdicts received;
  CHECK(bool(from(received)));
}
