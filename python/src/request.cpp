// Request: every field of paceline/request.hpp, those of Sampling among them.
#include "python/src/fields.hpp"
#include "python/src/parts.hpp"

namespace nb = nanobind;

namespace paceline::python {
namespace {

void add_sampling(nb::class_<Request>& type) {
  constexpr auto sampling = &Request::sampling;
  field<sampling, &Sampling::temperature>(type, "temperature");
  field<sampling, &Sampling::top_k>(type, "top_k");
  field<sampling, &Sampling::top_p>(type, "top_p");
  field<sampling, &Sampling::min_p>(type, "min_p");
  field<sampling, &Sampling::repetition_penalty>(type, "repetition_penalty");
  field<sampling, &Sampling::presence_penalty>(type, "presence_penalty");
  field<sampling, &Sampling::frequency_penalty>(type, "frequency_penalty");
  field<sampling, &Sampling::logit_bias>(type, "logit_bias");
  field<sampling, &Sampling::allowed_token_ids>(type, "allowed_token_ids");
  field<sampling, &Sampling::seed>(type, "seed");
  field<sampling, &Sampling::choice>(type, "choice");
}

void add_output(nb::class_<Request>& type) {
  field<&Request::max_tokens>(type, "max_tokens");
  field<&Request::stop>(type, "stop");
  field<&Request::stop_token_ids>(type, "stop_token_ids");
  field<&Request::ignore_eos>(type, "ignore_eos");
  field<&Request::min_tokens>(type, "min_tokens");
  field<&Request::skip_special_tokens>(type, "skip_special_tokens");
  field<&Request::constraint>(type, "constraint");
  field<&Request::logprobs>(type, "logprobs");
  field<&Request::top_logprobs>(type, "top_logprobs");
  field<&Request::prompt_logprobs>(type, "prompt_logprobs");
  field<&Request::logprobs_mode>(type, "logprobs_mode");
}

} // namespace

void add_request(nb::module_& module) {
  nb::class_<Constraint> constraint(module, "Constraint");
  constraint.def(nb::init<>());
  field<&Constraint::kind>(constraint, "kind");
  field<&Constraint::text>(constraint, "text");
  field<&Constraint::choices>(constraint, "choices");
  field<&Constraint::any_whitespace>(constraint, "any_whitespace");

  nb::class_<Request> type(module, "Request");
  type.def(nb::init<>()).def(nb::init<const Request&>());
  field<&Request::prompt>(type, "prompt");
  field<&Request::prompt_tokens>(type, "prompt_tokens");
  field<&Request::add_special_tokens>(type, "add_special_tokens");
  field<&Request::parse_special_tokens>(type, "parse_special_tokens");
  add_output(type);
  add_sampling(type);
  field<&Request::speculation>(type, "speculation");
  field<&Request::window>(type, "window");
  field<&Request::drafter>(type, "drafter");
  field<&Request::verify>(type, "verify");
  field<&Request::draft_scope>(type, "draft_scope");
  field<&Request::cache_salt>(type, "cache_salt");
  field<&Request::deadline>(type, "deadline");
  field<&Request::priority>(type, "priority");
  field<&Request::client>(type, "client");
  field<&Request::client_weight>(type, "client_weight");
}

} // namespace paceline::python
