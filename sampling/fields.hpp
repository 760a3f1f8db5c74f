// The numbers of a request, with their names, bounds and effects. All code that takes such numbers
// reads this table: the library, the command line and its files of options, HTTP, gRPC, a chat's
// settings, checkpoints' defaults, nodes and docs/limits.md. A new row appears in all of them, or
// says why not; a test goes through it.
#pragma once

#include "base/number_field.hpp"
#include "paceline/request.hpp"
#include "sampling/limits.hpp"
#include "sampling/warp.hpp"

#include <string_view>

namespace paceline::sampling {

/// How the bodies of HTTP have a number.
enum class InBodies {
  by_name, ///< As a field of its name.
  apart,   ///< As `why` says.
  no,
};

struct RequestNumber : base::NumberField<Request> {
  base::NumberAccess<Warping> warping{}; ///< What it sets there; null: nothing.
  InBodies in_bodies = InBodies::by_name;
  bool in_chat = true;    ///< A chat's /set takes it.
  std::string_view why{}; ///< Why an interface takes it in its own way, or not at all.

  bool warps() const { return warping.set != nullptr; }
};

/// Returns the row of a number that changes the target's distribution.
template <auto Asked, auto Value>
constexpr RequestNumber warping_number(std::string_view path, std::string_view options,
                                       std::string_view effect, double least, double most) {
  return {
      base::number_field<Request, &Request::sampling, Asked>(path, options, effect, least, most),
      base::number_access<Warping, Value>()};
}

/// Returns the row of another number.
template <auto... Path>
constexpr RequestNumber other_number(std::string_view path, std::string_view options,
                                     std::string_view effect, double least, double most,
                                     InBodies in_bodies, bool in_chat, std::string_view why) {
  return {base::number_field<Request, Path...>(path, options, effect, least, most),
          {},
          in_bodies,
          in_chat,
          why};
}

inline constexpr RequestNumber request_numbers[] = {
    warping_number<&Sampling::temperature, &Warping::temperature>(
        "Sampling::temperature", "--temperature,--temp", "0: greedy", 0, 100),
    warping_number<&Sampling::top_p, &Warping::top_p>(
        "Sampling::top_p", "--top-p",
        "Draw among the likeliest tokens that together have probability X; 1: all", 1e-6, 1),
    warping_number<&Sampling::min_p, &Warping::min_p>(
        "Sampling::min_p", "--min-p",
        "Draw among tokens at least X times as likely as the likeliest; 0: all", 0, 1),
    warping_number<&Sampling::repetition_penalty, &Warping::repetition_penalty>(
        "Sampling::repetition_penalty", "--repetition-penalty,--repeat-penalty",
        "Divide the logits of tokens seen before, in prompt or output; 1: off", 1e-6, 100),
    warping_number<&Sampling::presence_penalty, &Warping::presence_penalty>(
        "Sampling::presence_penalty", "--presence-penalty",
        "Lower the logits of tokens that the output has; 0: off", -2, 2),
    warping_number<&Sampling::frequency_penalty, &Warping::frequency_penalty>(
        "Sampling::frequency_penalty", "--frequency-penalty",
        "The same, times how often the output has them; 0: off", -2, 2),
    warping_number<&Sampling::top_k, &Warping::top_k>(
        "Sampling::top_k", "--top-k", "Draw among the N likeliest tokens; 0: all", 0, 1 << 30),
    other_number<&Request::sampling, &Sampling::choice>( // Noise is keyed by 29 bits of it.
        "Sampling::choice", "", "Number of the answer among several with one seed", 0, 65'535,
        InBodies::no, false, "commands ask for one answer, and bodies for n"),
    other_number<&Request::max_tokens>(
        "Request::max_tokens", "-n,--max-tokens,--n-predict",
        "Most tokens to generate; default: what the context leaves", 0, 2'147'483'647,
        InBodies::apart, true, "completions have a default, and chats generate a token at least"),
    other_number<&Request::min_tokens>(
        "Request::min_tokens", "--min-tokens",
        "Tokens before which neither the end of text nor --stop ends the output", 0, 2'147'483'647,
        InBodies::by_name, true, ""),
    other_number<&Request::window>(
        "Request::window", "--window,--num-speculative-tokens", "Tokens drafted at a time", 1,
        limits::window_max, InBodies::apart, true, "it may be auto; bodies have speculation"),
    other_number<&Request::top_logprobs>(
        "Request::top_logprobs", "--logprobs",
        "With --json: each token's log-probability, and the N likeliest", 0,
        limits::top_logprobs_max, InBodies::apart, false,
        "completions call it logprobs, and a chat shows none"),
    other_number<&Request::priority>(
        "Request::priority", "", "With --scheduling-policy priority the least goes first",
        -1'000'000, 1'000'000, InBodies::by_name, false, "a command has one request at a time"),
    other_number<&Request::client_weight>(
        "Request::client_weight", "", "Weight of a client's share beside other clients'", 1, 1000,
        InBodies::no, false, "a command is the only client; API keys have weights"),
};

/// Returns the number of that name, which must exist.
constexpr const RequestNumber& request_number(std::string_view name) {
  return base::field_of(request_numbers, name);
}

} // namespace paceline::sampling
