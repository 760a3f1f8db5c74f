// Names of what requests and options choose among and results tell: those that commands, JSON and
// Python use.
#pragma once

#include "paceline/engine.hpp"

#include <array>
#include <utility>

namespace paceline {

/// The values of an enumeration with their names, in the order in which help lists them.
template <class E>
inline constexpr auto value_names = std::array<std::pair<E, const char*>, 0>{};

template <>
inline constexpr auto value_names<SpeculationMode> =
    std::to_array<std::pair<SpeculationMode, const char*>>({{SpeculationMode::off, "off"},
                                                            {SpeculationMode::sync, "sync"},
                                                            {SpeculationMode::overlap, "overlap"},
                                                            {SpeculationMode::automatic, "auto"}});
template <>
inline constexpr auto value_names<Lookahead> =
    std::to_array<std::pair<Lookahead, const char*>>({{Lookahead::automatic, "auto"},
                                                      {Lookahead::none, "none"},
                                                      {Lookahead::chain, "chain"},
                                                      {Lookahead::fork, "fork"}});
template <>
inline constexpr auto value_names<VerifyRule> =
    std::to_array<std::pair<VerifyRule, const char*>>({{VerifyRule::automatic, "auto"},
                                                       {VerifyRule::rejection, "rejection"},
                                                       {VerifyRule::coupled, "coupled"},
                                                       {VerifyRule::match, "match"}});
template <>
inline constexpr auto value_names<LogprobsMode> =
    std::to_array<std::pair<LogprobsMode, const char*>>({{LogprobsMode::raw, "raw"},
                                                         {LogprobsMode::processed, "processed"}});
template <>
inline constexpr auto
    value_names<Constraint::Kind> = std::to_array<std::pair<Constraint::Kind, const char*>>(
        {{Constraint::Kind::json, "json"},
         {Constraint::Kind::json_schema, "json_schema"},
         {Constraint::Kind::regex, "regex"},
         {Constraint::Kind::choice, "choice"},
         {Constraint::Kind::grammar, "grammar"},
         {Constraint::Kind::structural_tag, "structural_tag"}});
template <>
inline constexpr auto value_names<FinishReason> =
    std::to_array<std::pair<FinishReason, const char*>>({{FinishReason::stop, "stop"},
                                                         {FinishReason::length, "length"},
                                                         {FinishReason::cancelled, "cancelled"},
                                                         {FinishReason::deadline, "deadline"},
                                                         {FinishReason::error, "error"}});
template <>
inline constexpr auto value_names<TokenSource> =
    std::to_array<std::pair<TokenSource, const char*>>({{TokenSource::target, "target"},
                                                        {TokenSource::draft, "draft"},
                                                        {TokenSource::lookahead, "lookahead"}});
template <>
inline constexpr auto value_names<NumberFormat> =
    std::to_array<std::pair<NumberFormat, const char*>>({{NumberFormat::automatic, "auto"},
                                                         {NumberFormat::f32, "f32"},
                                                         {NumberFormat::f16, "f16"},
                                                         {NumberFormat::bf16, "bf16"}});
template <>
inline constexpr auto value_names<Prefill> = std::to_array<std::pair<Prefill, const char*>>(
    {{Prefill::invariant, "invariant"}, {Prefill::fast, "fast"}});
template <>
inline constexpr auto
    value_names<SchedulingPolicy> = std::to_array<std::pair<SchedulingPolicy, const char*>>(
        {{SchedulingPolicy::fcfs, "fcfs"},
         {SchedulingPolicy::priority, "priority"},
         {SchedulingPolicy::deadline, "deadline"}});
template <>
inline constexpr auto value_names<Batching> =
    std::to_array<std::pair<Batching, const char*>>({{Batching::hybrid, "hybrid"},
                                                     {Batching::prefill_first, "prefill-first"},
                                                     {Batching::request, "request"}});
template <>
inline constexpr auto value_names<LogLevel> = std::to_array<std::pair<LogLevel, const char*>>(
    {{LogLevel::info, "info"}, {LogLevel::warning, "warning"}, {LogLevel::error, "error"}});
template <>
inline constexpr auto value_names<Activations> = std::to_array<std::pair<Activations, const char*>>(
    {{Activations::automatic, "auto"}, {Activations::bf16, "bf16"}, {Activations::int8, "int8"}});
template <>
inline constexpr auto value_names<KvCacheDtype> =
    std::to_array<std::pair<KvCacheDtype, const char*>>({{KvCacheDtype::automatic, "auto"},
                                                         {KvCacheDtype::as_weights, "weights"},
                                                         {KvCacheDtype::int8, "int8"}});
template <>
inline constexpr auto value_names<ScaleChoice> = std::to_array<std::pair<ScaleChoice, const char*>>(
    {{ScaleChoice::search, "search"}, {ScaleChoice::floor, "floor"}, {ScaleChoice::ceil, "ceil"}});
/// Only formats that weights are quantized to while they are loaded.
template <>
inline constexpr auto value_names<WeightFormat> =
    std::to_array<std::pair<WeightFormat, const char*>>({{WeightFormat::mxfp8, "mxfp8"},
                                                         {WeightFormat::mxfp8_e5m2, "mxfp8-e5m2"},
                                                         {WeightFormat::mxfp6, "mxfp6"},
                                                         {WeightFormat::mxfp6_e3m2, "mxfp6-e3m2"},
                                                         {WeightFormat::mxfp4, "mxfp4"},
                                                         {WeightFormat::mxint8, "mxint8"}});

/// Returns the name of a value; empty if it has none.
template <class E>
constexpr const char* name_of(E value) noexcept {
  for (const auto& [each, name] : value_names<E>)
    if (each == value)
      return name;
  return "";
}

} // namespace paceline
