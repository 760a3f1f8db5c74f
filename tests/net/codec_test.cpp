// Every field of requests and events crosses, found in the structures and in the messages'
// descriptors, so that a new one cannot be forgotten on either side.
#include "net/codec.hpp"
#include "net/status.hpp"

#include <boost/pfr.hpp>
#include <chrono>
#include <doctest/doctest.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/message_differencer.h>
#include <string>
#include <type_traits>

using namespace paceline;

namespace {

template <class T>
concept Structure = std::is_aggregate_v<T> && std::is_class_v<T>;

// --- another value than the one that is there

template <class T>
requires std::is_arithmetic_v<T>
void change(T& value) {
  if constexpr (std::is_same_v<T, bool>)
    value = !value;
  else
    value += T(3);
}
template <class T>
requires std::is_enum_v<T>
void change(T& value) {
  value = value == T(1) ? T(2) : T(1);
}
void change(LogprobsMode& value) {
  value = value == LogprobsMode::raw ? LogprobsMode::processed : LogprobsMode::raw;
}
void change(std::string& text) {
  text += "caf\xc3\xa9";
}
void change(std::chrono::milliseconds& time) {
  time += std::chrono::milliseconds(7);
}
template <class A, class B>
void change(std::pair<A, B>& pair);
template <class T>
void change(std::optional<T>& value);
template <class T>
void change(std::vector<T>& values);
template <Structure T>
void change(T& value);

template <class A, class B>
void change(std::pair<A, B>& pair) {
  change(pair.first);
  change(pair.second);
}
template <class T>
void change(std::optional<T>& value) {
  change(value.emplace());
}
template <class T>
void change(std::vector<T>& values) {
  for (int i = 0; i < 2; ++i)
    change(values.emplace_back());
}
template <Structure T>
void change(T& value) {
  boost::pfr::for_each_field(value, [](auto& field) { change(field); });
}

// --- equality, for structures that have none

template <class T>
bool same(const T& a, const T& b) {
  return a == b;
}
template <class T>
bool same(const std::optional<T>& a, const std::optional<T>& b);
template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b);
template <Structure T>
bool same(const T& a, const T& b) {
  bool all = true;
  boost::pfr::for_each_field(a, [&](const auto& field, auto index) {
    all = all && same(field, boost::pfr::get<index>(b));
  });
  return all;
}
template <class T>
bool same(const std::optional<T>& a, const std::optional<T>& b) {
  return a.has_value() == b.has_value() && (!a || same(*a, *b));
}
template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const T& x, const T& y) { return same(x, y); });
}

// --- there and back

Request crossed(const Request& request) {
  v1::GenerateRequest message;
  REQUIRE(net::write(message, request));
  v1::GenerateRequest arrived;
  REQUIRE(arrived.ParseFromString(message.SerializeAsString()));
  return net::read(arrived).value();
}
template <class T>
T crossed_event(const T& event) {
  v1::GenerateEvent message;
  net::write(message, Event(event));
  v1::GenerateEvent arrived;
  REQUIRE(arrived.ParseFromString(message.SerializeAsString()));
  return std::get<T>(net::read(arrived).value());
}
Delta crossed(const Delta& event) {
  return crossed_event(event);
}
PromptLogprobs crossed(const PromptLogprobs& event) {
  return crossed_event(event);
}
Finished crossed(const Finished& event) {
  return crossed_event(event);
}

/// Each field alone, and each of structures within, is another one and arrives so.
template <Structure T, class Whole, class Find>
void check_fields(const Whole& standard, Find find) {
  const T& part = find(const_cast<Whole&>(standard));
  boost::pfr::for_each_field(part, [&](const auto&, auto index) {
    CAPTURE(std::size_t(index));
    Whole changed = standard;
    auto& field = boost::pfr::get<index>(find(changed));
    change(field);
    CHECK_FALSE(same(changed, standard));
    CHECK(same(crossed(changed), changed));
    if constexpr (Structure<std::decay_t<decltype(field)>>)
      check_fields<std::decay_t<decltype(field)>>(
          standard, [&](Whole & whole) -> auto& { return boost::pfr::get<index>(find(whole)); });
  });
}
template <Structure T>
void check_all_fields() {
  check_fields<T>(T(), [](T& whole) -> T& { return whole; });
}

/// Fills a field with what is not its default, as a stranger's client may.
void fill(google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field) {
  using Field = google::protobuf::FieldDescriptor;
  const auto& reflection = *message.GetReflection();
  const auto put = [&](auto set, auto add, auto value) {
    if (field.is_repeated())
      (reflection.*add)(&message, &field, value);
    else
      (reflection.*set)(&message, &field, value);
  };
  using R = google::protobuf::Reflection;
  switch (field.cpp_type()) {
  case Field::CPPTYPE_INT32: return put(&R::SetInt32, &R::AddInt32, 5);
  case Field::CPPTYPE_INT64: return put(&R::SetInt64, &R::AddInt64, 5);
  case Field::CPPTYPE_UINT64: return put(&R::SetUInt64, &R::AddUInt64, 5);
  case Field::CPPTYPE_FLOAT: return put(&R::SetFloat, &R::AddFloat, 0.5f);
  case Field::CPPTYPE_DOUBLE: return put(&R::SetDouble, &R::AddDouble, 0.5);
  case Field::CPPTYPE_BOOL:
    return put(&R::SetBool, &R::AddBool,
               !field.name().ends_with("add_special_tokens") &&
                   field.name() != "skip_special_tokens");
  case Field::CPPTYPE_ENUM: return put(&R::SetEnumValue, &R::AddEnumValue, 1);
  case Field::CPPTYPE_STRING: // as bytes are sent what is no text
    return put(&R::SetString, &R::AddString,
               std::string(field.type() == Field::TYPE_BYTES ? "\xff" : "x"));
  case Field::CPPTYPE_MESSAGE: {
    auto& inner = field.is_repeated() ? *reflection.AddMessage(&message, &field)
                                      : *reflection.MutableMessage(&message, &field);
    for (int i = 0; i < inner.GetDescriptor()->field_count(); ++i)
      fill(inner, *inner.GetDescriptor()->field(i));
    return;
  }
  default: FAIL(field.full_name() << " is of a type that this test does not know");
  }
}

template <class Message>
void check_descriptor(const std::string& without = {}) {
  const auto& descriptor = *Message::descriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    CAPTURE(descriptor.field(i)->full_name());
    if (descriptor.field(i)->name() == without)
      continue;
    Message message;
    fill(message, *descriptor.field(i));
    const auto read = net::read(message);
    REQUIRE(read);
    Message standard;
    Message again;
    if constexpr (std::is_same_v<Message, v1::GenerateRequest>) {
      REQUIRE(net::write(standard, net::read(Message()).value()));
      REQUIRE(net::write(again, *read));
    } else {
      net::write(again, *read);
    }
    CHECK(again.SerializeAsString() != standard.SerializeAsString());
    google::protobuf::util::MessageDifferencer differ;
    differ.set_scope(google::protobuf::util::MessageDifferencer::PARTIAL);
    CHECK(differ.Compare(message, again)); // which says defaults besides
  }
}

std::size_t fields_of(const google::protobuf::Descriptor& message) {
  return std::size_t(message.field_count());
}

} // namespace

TEST_CASE("every field of a request crosses") {
  check_all_fields<Request>();
}

TEST_CASE("every field of an event crosses") {
  check_all_fields<Delta>();
  check_all_fields<PromptLogprobs>();
  check_all_fields<Finished>();
}

TEST_CASE("every field that a message has is read, and written again") {
  check_descriptor<v1::GenerateRequest>("model"); // whose request it is, not what it says
  check_descriptor<v1::GenerateEvent>();
  check_descriptor<v1::Error>();
}

TEST_CASE("structures and messages have as many fields as each other") {
  constexpr std::size_t only_in_message = 2; // model, prompt_bytes
  CHECK(fields_of(*v1::GenerateRequest::descriptor()) ==
        boost::pfr::tuple_size_v<Request> + only_in_message);
  CHECK(fields_of(*v1::Sampling::descriptor()) == boost::pfr::tuple_size_v<Sampling>);
  CHECK(fields_of(*v1::Constraint::descriptor()) == boost::pfr::tuple_size_v<Constraint>);
  CHECK(fields_of(*v1::Delta::descriptor()) == boost::pfr::tuple_size_v<Delta>);
  CHECK(fields_of(*v1::Finished::descriptor()) == boost::pfr::tuple_size_v<Finished>);
  CHECK(fields_of(*v1::Speculation::descriptor()) == boost::pfr::tuple_size_v<SpeculationStats>);
  CHECK(fields_of(*v1::Usage::descriptor()) == boost::pfr::tuple_size_v<Usage>);
  CHECK(fields_of(*v1::Timing::descriptor()) == boost::pfr::tuple_size_v<Timing>);
}

TEST_CASE("all values of enumerations cross") {
  Request request;
  for (const auto mode : {SpeculationMode::off, SpeculationMode::sync, SpeculationMode::overlap,
                          SpeculationMode::automatic}) {
    request.speculation = mode;
    CHECK(crossed(request).speculation == mode);
  }
  for (const auto rule :
       {VerifyRule::rejection, VerifyRule::coupled, VerifyRule::match, VerifyRule::automatic}) {
    request.verify = rule;
    CHECK(crossed(request).verify == rule);
  }
  Finished end;
  for (const auto reason : {FinishReason::stop, FinishReason::length, FinishReason::cancelled,
                            FinishReason::deadline, FinishReason::error}) {
    end.reason = reason;
    CHECK(crossed(end).reason == reason);
  }
  Delta delta;
  delta.sources = {TokenSource::lookahead, TokenSource::draft, TokenSource::target};
  CHECK(crossed(delta).sources == delta.sources);
}

TEST_CASE("what is not set in a message has the defaults of the structure") {
  CHECK(same(net::read(v1::GenerateRequest()).value(), Request()));
}

TEST_CASE("a prompt that is not UTF-8 crosses as it is, and other texts are refused by name") {
  Request request;
  for (const std::string prompt : {"na\xc3\xafve \xff", "\xc3", "\xed\xa0\x80", "\xc0\xaf"}) {
    request.prompt = prompt;
    CHECK(crossed(request).prompt == prompt);
  }
  const auto refused = [](auto set) {
    Request wrong;
    set(wrong) = "\xff";
    v1::GenerateRequest message;
    return net::write(message, wrong).error().message;
  };
  using Text = std::string&;
  CHECK(refused([](Request& r) -> Text { return r.stop.emplace_back(); }) ==
        "Request::stop is not UTF-8");
  CHECK(refused([](Request& r) -> Text { return r.drafter.emplace(); }) ==
        "Request::drafter is not UTF-8");
  CHECK(refused([](Request& r) -> Text { return r.draft_scope; }) ==
        "Request::draft_scope is not UTF-8");
  CHECK(refused([](Request& r) -> Text { return r.cache_salt; }) ==
        "Request::cache_salt is not UTF-8");
  CHECK(refused([](Request& r) -> Text { return r.client; }) == "Request::client is not UTF-8");
}

TEST_CASE("values that no enumeration has, two prompts and events of no kind are errors") {
  v1::GenerateRequest request;
  request.set_verify(v1::VerifyRule(99));
  CHECK(net::read(request).error().message == "there is no rule of verification 99");
  request.Clear();
  request.set_prompt("a");
  request.set_prompt_bytes("b");
  CHECK(net::read(request).error().code == ErrorCode::invalid_argument);
  CHECK(net::read(v1::GenerateEvent()).error().code == ErrorCode::unsupported);
}

TEST_CASE("an error is the same behind a status, and its text is there for all") {
  for (int code = 0; code <= int(ErrorCode::internal); ++code) {
    const Error error{ErrorCode(code), "something \xe2\x80\x93 broke", "mend it"};
    const grpc::Status status = net::status_of(error);
    CHECK(!status.ok());
    CHECK(status.error_message() == error.text());
    const auto told = net::told_by(status);
    REQUIRE(told);
    CHECK(told->code == error.code);
    CHECK(told->message == error.message);
    CHECK(told->hint == error.hint);
  }
  CHECK(!net::told_by(grpc::Status::OK));
  CHECK(!net::told_by({grpc::UNAVAILABLE, "Socket closed"}));
  CHECK(!net::told_by({grpc::UNAVAILABLE, "", "not a message"}));
}
