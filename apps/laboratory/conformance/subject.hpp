// The server that the suite asks: how it is spoken to, and what can be learnt of it.
#pragma once

#include "apps/laboratory/conformance/answer.hpp"
#include "apps/laboratory/conformance/check.hpp"
#include "apps/laboratory/load/server_client.hpp"

#include <atomic>
#include <memory>
#include <span>

namespace paceline::apps::conformance {

struct SubjectOptions {
  load::HttpOptions server;
  std::optional<load::HttpOptions> plain; ///< A server of the same model without speculation.
  std::string model;                      ///< Empty: the first that the server names.
  /// Fields that switch speculation off; none: those of servers that are known, if this is one.
  std::optional<boost::json::object> off;
  double seconds = 120;   ///< Time for all that is drawn by chance.
  std::uint64_t seed = 1; ///< Of the suite's own choices.
  int at_once = 16;       ///< Requests under way, where they are many.
};

/// A token of an answer whose id is known.
struct KnownToken {
  std::size_t place = 0; ///< Where it comes first.
  std::string name;
  std::int64_t id = 0;
};

/// Texts that answers go on with: prose and code, short, so that commands that show a fault are.
std::span<const char* const> prompts();

/// Threads: one, except for `stop`.
class Subject {
public:
  /// Finds the server, its model, and which of OpenAI's endpoints and fields it has. Errors: it
  /// cannot be reached, or answers neither completions nor chats.
  static Result<std::unique_ptr<Subject>> open(SubjectOptions options);

  const SubjectOptions& options() const { return options_; }
  const std::string& model() const { return model_; }
  bool chat() const { return chat_; }
  /// Returns how many of the likeliest tokens it reports; 0: no log-probabilities.
  int top() const { return top_; }
  /// Returns the longest text, prompt and answer, that it says the model takes; none: it is silent.
  std::optional<int> context() const { return context_; }
  /// Whether there is a way to ask without speculation.
  bool has_plain() const { return plain_ || options_.off; }
  /// Returns what the server is, for the report.
  boost::json::object facts() const;

  /// Makes a greedy request of at most `tokens`, which names all that would warp. fields: replace
  /// those of the same names.
  boost::json::object body(std::string_view prompt, int tokens,
                           const boost::json::object& fields = {}) const;
  /// Makes it as a chat, whatever other checks ask for.
  boost::json::object chat_body(std::string_view prompt, int tokens,
                                const boost::json::object& fields = {}) const;
  /// Makes it report each token's log-probability, and the `top` likeliest (default: as many as it
  /// offers).
  boost::json::object scored(boost::json::object body, std::optional<int> top = {}) const;

  Answer ask(const boost::json::object& body);
  std::vector<Answer> ask_all(const std::vector<boost::json::object>& bodies,
                              std::optional<int> at_once = {});
  /// Asks the same without speculation. Call only if `has_plain`.
  Answer ask_plain(const boost::json::object& body);
  std::vector<Answer> ask_all_plain(const std::vector<boost::json::object>& bodies);
  /// Asks as an answer was asked for, with other fields.
  Answer ask_again(const Answer& like, boost::json::object body);
  /// Sends a body as it is, be it JSON or not.
  Answer ask_raw(const std::string& body);
  /// Sends requests and breaks their connections.
  void break_off(const std::vector<boost::json::object>& bodies,
                 const load::ServerClient::Patience& patience);
  /// Returns a page of the server; empty: it has none.
  std::string page(const std::string& path);

  /// Returns the ids of a text; empty: the server does not tell.
  std::vector<TokenId> ids_of(const std::string& text);
  /// Returns the first tokens of an answer whose ids the server tells, at most so many, each once.
  std::vector<KnownToken> known_tokens(const Answer& answer, std::size_t most);
  /// Returns a greedy answer with log-probabilities, of the first prompt whose answer has at least
  /// this many tokens; none: no answer is so long.
  std::optional<Answer> long_answer(int tokens, const boost::json::object& fields = {});

  /// Returns what is to be said where no answer came: not supported (the server refuses it), not
  /// decidable (it has no place, or wants a key), or a fault; none: it came.
  std::optional<Finding> missing(const Answer& answer) const;
  std::optional<Finding> missing(std::span<const Answer> answers) const;
  /// Makes a finding with the command that shows it.
  Finding say(Verdict verdict, std::string evidence, const Answer& shown) const;
  std::string curl(const Answer& answer) const;
  /// The same of a body for `ask_raw`.
  std::string curl_raw(const std::string& body) const;

  /// Breaks off what is under way, and lets nothing begin. Threads: any.
  void stop();
  bool stopped() const { return stopped_; }

private:
  boost::json::object body_of(boost::json::object asked, int tokens,
                              const boost::json::object& fields) const;
  explicit Subject(SubjectOptions options);
  std::optional<std::int64_t> id_of(const std::string& text);
  Result<void> find_model();
  Result<void> learn_endpoint();
  void learn_known();
  std::vector<Answer> ask_of(load::ServerClient& server,
                             const std::vector<boost::json::object>& bodies, int at_once,
                             bool plain);
  std::vector<boost::json::object> without(std::vector<boost::json::object> bodies) const;
  std::string curl(const char* path, const std::string& body, bool plain) const;

  SubjectOptions options_;
  load::ServerClient server_;
  std::unique_ptr<load::ServerClient> plain_; ///< Null: the server itself, with `off`, if anybody.
  std::string model_;
  std::string owner_; ///< What /v1/models says.
  bool chat_ = false;
  int top_ = 0;
  std::optional<int> context_;
  boost::json::object neutral_; ///< Fields that the server knows and that warp nothing.
  std::atomic<bool> stopped_{false};
};

/// Returns a whole answer where a text leaves it: how far the token that the text goes on with lies
/// below the one that was chosen, in nats; none: the list does not have that token, or the text
/// does not leave it.
std::optional<double> gap_where_left(const Choice& scored, std::string_view text);

} // namespace paceline::apps::conformance
