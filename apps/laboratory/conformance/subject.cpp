#include "apps/laboratory/conformance/subject.hpp"

#include "apps/console/json_text.hpp"
#include "apps/console/limits.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>
#include <set>

namespace paceline::apps::conformance {
namespace json = boost::json;
namespace {

constexpr std::array texts{
    "def fibonacci(n):",
    "The sea was calm that morning, and",
    "import os\n\ndef read_lines(path):\n",
    "Once upon a time there was a",
    "for i in range(10):\n    print(",
    "The three most important reasons are",
    "class Stack:\n    def __init__(self):\n",
    "My favourite colour is",
};

void merge(json::object& into, const json::object& fields) {
  for (const auto& [name, value] : fields)
    into[name] = value;
}

/// Returns a text as a shell takes it for one argument.
std::string shell_quoted(const std::string& text) {
  std::string all = "'";
  for (const char c : text)
    all += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return all + "'";
}

const char* path_of(bool chat) {
  return chat ? "/v1/chat/completions" : "/v1/completions";
}

/// Returns where a request goes to: some checks ask for chats whatever the others do.
const char* path_of(const json::object& body) {
  return path_of(body.contains("messages"));
}

bool is_streamed(const json::object& body) {
  const auto* stream = body.if_contains("stream");
  return stream && stream->is_bool() && stream->get_bool();
}

} // namespace

std::span<const char* const> prompts() {
  return texts;
}

Subject::Subject(SubjectOptions options) : options_(std::move(options)), server_(options_.server) {
  if (options_.plain)
    plain_ = std::make_unique<load::ServerClient>(*options_.plain);
}

Result<std::unique_ptr<Subject>> Subject::open(SubjectOptions options) {
  std::unique_ptr<Subject> subject(new Subject(std::move(options)));
  if (auto found = subject->server_.open(); !found)
    return tl::unexpected(found.error());
  if (subject->plain_)
    if (auto found = subject->plain_->open(); !found)
      return tl::unexpected(found.error());
  if (auto found = subject->find_model(); !found)
    return tl::unexpected(found.error());
  if (auto learnt = subject->learn_endpoint(); !learnt)
    return tl::unexpected(learnt.error());
  subject->learn_known();
  return subject;
}

Result<void> Subject::find_model() {
  model_ = options_.model;
  if (model_.empty()) {
    auto first = server_.first_model();
    if (!first) {
      Error error = first.error();
      error.hint = "name the --model, and give --api-key-file where the server wants a key";
      return tl::unexpected(std::move(error));
    }
    model_ = std::move(*first);
  }
  json::error_code wrong;
  const json::value models = json::parse(page("/v1/models"), wrong);
  const auto* list = wrong ? nullptr : models.find_pointer("/data", wrong);
  if (!list || !list->is_array())
    return {};
  for (const json::value& one : list->get_array()) {
    json::error_code missing;
    const auto* id = one.find_pointer("/id", missing);
    if (!id || *id != json::value(model_))
      continue;
    if (const auto* owner = one.find_pointer("/owned_by", missing); owner && owner->is_string())
      owner_ = std::string(owner->get_string());
    for (const char* place : {"/max_model_len", "/meta/n_ctx", "/meta/n_ctx_train"})
      if (const auto* most = one.find_pointer(place, missing);
          most && most->is_int64() && most->get_int64() > 0 &&
          most->get_int64() <= limits::reported_count && !context_)
        context_ = int(most->get_int64());
  }
  return {};
}

/// Finds the richest way to ask that the server answers: completions before chats, many likeliest
/// tokens before few, and all fields that would warp before some.
Result<void> Subject::learn_endpoint() {
  const std::array neutrals{
      json::object{{"top_p", 1}, {"top_k", -1}, {"min_p", 0}, {"repetition_penalty", 1}},
      json::object{{"top_p", 1}, {"top_k", 0}, {"min_p", 0}}, json::object{{"top_p", 1}},
      json::object{}};
  struct Way {
    bool chat;
    int top;
  };
  Answer last;
  for (const Way way : {Way{false, 20}, {false, 5}, {true, 20}, {true, 5}, {false, 0}, {true, 0}})
    for (const json::object& neutral : neutrals) {
      chat_ = way.chat;
      top_ = way.top;
      neutral_ = neutral;
      json::object probe = body(prompts()[0], 1);
      last = ask(top_ > 0 ? scored(probe) : probe);
      if (last.ok() && (top_ == 0 || (!last.tokens().empty() && !last.tokens()[0].top.empty())))
        return {};
      if (last.ok() || last.status == 404 || last.status == 0)
        break; // Other fields make no difference.
    }
  return fail(ErrorCode::unavailable,
              fmt::format("{} answers neither completions nor chats ({})", server_.url().text(),
                          last.error),
              "check --base-url and --model");
}

void Subject::learn_known() {
  if (!options_.off && !plain_ && owner_ == "paceline")
    options_.off = json::object{{"speculation", {{"mode", "off"}}}};
}

json::object Subject::facts() const {
  json::object facts{{"base_url", server_.url().text()},
                     {"model", model_},
                     {"owned_by", owner_},
                     {"endpoint", path_of(chat_)},
                     {"top_logprobs", top_}};
  facts["context"] = context_ ? json::value(*context_) : json::value();
  if (plain_)
    facts["plain_url"] = plain_->url().text();
  else if (options_.off)
    facts["off"] = *options_.off;
  return facts;
}

json::object Subject::body(std::string_view prompt, int tokens, const json::object& fields) const {
  return chat_ ? chat_body(prompt, tokens, fields) : body_of({{"prompt", prompt}}, tokens, fields);
}

json::object Subject::chat_body(std::string_view prompt, int tokens,
                                const json::object& fields) const {
  return body_of({{"messages", json::array{{{"role", "user"}, {"content", prompt}}}}}, tokens,
                 fields);
}

json::object Subject::body_of(json::object asked, int tokens, const json::object& fields) const {
  merge(asked, {{"model", model_}, {"max_tokens", tokens}, {"temperature", 0}});
  merge(asked, neutral_);
  merge(asked, fields);
  return asked;
}

json::object Subject::scored(json::object body, std::optional<int> top) const {
  if (chat_) {
    body["logprobs"] = true;
    body["top_logprobs"] = top.value_or(top_);
  } else {
    body["logprobs"] = top.value_or(top_);
  }
  return body;
}

// --- questions

std::vector<Answer> Subject::ask_of(load::ServerClient& server,
                                    const std::vector<json::object>& bodies, int at_once,
                                    bool plain) {
  std::vector<Answer> answers(bodies.size());
  std::vector<load::ServerClient::Ask> asks;
  for (const json::object& body : bodies)
    asks.push_back({"POST", path_of(body), json::serialize(body)});
  if (!stopped_) {
    const auto replies = server.fetch_all(asks, at_once);
    for (std::size_t i = 0; i < replies.size(); ++i)
      if (replies[i])
        answers[i] = read_answer(replies[i]->status, replies[i]->body, is_streamed(bodies[i]));
      else
        answers[i].error = replies[i].error().message;
  }
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    answers[i].asked = bodies[i];
    answers[i].plain = plain;
    if (stopped_)
      answers[i].error = "interrupted";
  }
  return answers;
}

std::vector<json::object> Subject::without(std::vector<json::object> bodies) const {
  if (!plain_ && options_.off)
    for (json::object& body : bodies)
      merge(body, *options_.off);
  return bodies;
}

Answer Subject::ask(const json::object& body) {
  return ask_of(server_, {body}, 1, false).front();
}

std::vector<Answer> Subject::ask_all(const std::vector<json::object>& bodies,
                                     std::optional<int> at_once) {
  return ask_of(server_, bodies, at_once.value_or(options_.at_once), false);
}

Answer Subject::ask_plain(const json::object& body) {
  return ask_all_plain({body}).front();
}

std::vector<Answer> Subject::ask_all_plain(const std::vector<json::object>& bodies) {
  return ask_of(plain_ ? *plain_ : server_, without(bodies), options_.at_once, true);
}

Answer Subject::ask_again(const Answer& like, json::object body) {
  return like.plain ? ask_plain(body) : ask(body);
}

Answer Subject::ask_raw(const std::string& body) {
  Answer answer;
  if (stopped_) {
    answer.error = "interrupted";
    return answer;
  }
  const auto reply = server_.fetch_now({"POST", path_of(chat_), body});
  if (reply)
    return read_answer(reply->status, reply->body, false);
  answer.error = reply.error().message;
  return answer;
}

void Subject::break_off(const std::vector<json::object>& bodies,
                        const load::ServerClient::Patience& patience) {
  std::vector<load::ServerClient::Ask> asks;
  for (const json::object& body : bodies)
    asks.push_back({"POST", path_of(body), json::serialize(body)});
  if (!stopped_)
    server_.break_off(asks, patience);
}

std::string Subject::page(const std::string& path) {
  if (stopped_)
    return {};
  const auto reply = server_.fetch_now({"GET", path});
  return reply && reply->status == 200 ? reply->body : std::string();
}

std::vector<KnownToken> Subject::known_tokens(const Answer& answer, std::size_t most) {
  std::vector<KnownToken> known;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < answer.tokens().size() && known.size() < most; ++i) {
    const std::string& name = answer.tokens()[i].token;
    if (seen.insert(name).second)
      if (const auto id = id_of(name))
        known.push_back({i, name, *id});
  }
  return known;
}

std::vector<TokenId> Subject::ids_of(const std::string& text) {
  return stopped_ ? std::vector<TokenId>() : server_.tokenize(model_, text);
}

/// Returns the id of the token that a text is; none: it is not one, or the server does not tell.
std::optional<std::int64_t> Subject::id_of(const std::string& text) {
  const auto ids = ids_of(text);
  if (ids.size() != 1)
    return std::nullopt;
  const json::object back{{"model", model_}, {"tokens", json::array{ids[0]}}};
  const auto reply = server_.fetch_now({"POST", "/detokenize", json::serialize(back)});
  json::error_code wrong;
  const json::value answer =
      json::parse(reply && reply->status == 200 ? reply->body : std::string("{}"), wrong);
  for (const char* name : {"/prompt", "/content"})
    if (const auto* same = answer.find_pointer(name, wrong); same && *same == json::value(text))
      return ids[0];
  return std::nullopt;
}

std::optional<Answer> Subject::long_answer(int tokens, const json::object& fields) {
  for (const char* prompt : prompts()) {
    const json::object request = body(prompt, tokens, fields);
    Answer answer = ask(top_ > 0 ? scored(request) : request);
    if (answer.ok() && (top_ == 0 ? answer.first().finish_reason == "length"
                                  : int(answer.tokens().size()) >= tokens))
      return answer;
  }
  return std::nullopt;
}

// --- findings

std::optional<Finding> Subject::missing(const Answer& answer) const {
  if (answer.ok())
    return std::nullopt;
  switch (answer.status) {
  case 400:
  case 404:
  case 405:
  case 413:
  case 415:
  case 422:
  case 501: return say(Verdict::not_supported, answer.error, answer);
  case 401:
  case 403:
  case 429: return say(Verdict::not_decidable, answer.error, answer); // Not just now, or not to us.
  default: return say(Verdict::fail, answer.error, answer);
  }
}

std::optional<Finding> Subject::missing(std::span<const Answer> answers) const {
  for (const Answer& answer : answers)
    if (auto finding = missing(answer))
      return finding;
  return std::nullopt;
}

Finding Subject::say(Verdict verdict, std::string evidence, const Answer& shown) const {
  return {verdict, std::move(evidence), curl(shown)};
}

std::string Subject::curl(const Answer& answer) const {
  return curl(path_of(answer.asked), json_text(answer.asked), answer.plain);
}

std::string Subject::curl_raw(const std::string& body) const {
  return curl(path_of(chat_), body, false);
}

std::string Subject::curl(const char* path, const std::string& body, bool plain) const {
  const load::ServerClient& server = plain && plain_ ? *plain_ : server_;
  const bool key = !(plain && options_.plain ? *options_.plain : options_.server).api_key.empty();
  return fmt::format(
      "curl -s {}{} -H 'Content-Type: application/json'{} -d {}", server.url().text(), path,
      key ? " -H \"Authorization: Bearer $OPENAI_API_KEY\"" : "", shell_quoted(body));
}

void Subject::stop() {
  stopped_ = true;
  for (load::ServerClient* server : {&server_, plain_.get()})
    if (server)
      boost::asio::post(server->io(), [server] { server->http().close(); });
}

std::optional<double> gap_where_left(const Choice& scored, std::string_view text) {
  for (const Scored& token : scored.tokens) {
    if (text.starts_with(token.token)) {
      text.remove_prefix(token.token.size());
      continue;
    }
    std::optional<double> gap;
    std::size_t longest = 0;
    for (const auto& [name, logprob] : token.top)
      if (name != token.token && !name.empty() && text.starts_with(name) && name.size() > longest) {
        longest = name.size();
        gap = token.logprob.value_or(0) - logprob;
      }
    return gap;
  }
  return std::nullopt;
}

} // namespace paceline::apps::conformance
