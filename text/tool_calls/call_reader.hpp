// Reads calls of functions in the forms of ToolFormat.
#pragma once

#include "text/tool_calls/pieces.hpp"
#include "text/tool_calls/reading.hpp"
#include "text/tool_format.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace paceline::text {

/// Reads calls from a source. Its functions return whether a call was there. If none was, nothing
/// has come of it, and the caller moves back; what follows a call that has begun and is malformed
/// is left to be read as content.
class CallReader {
public:
  CallReader(const ToolFormat& format, std::span<const ToolFunction> functions, Source& in,
             Pieces& out)
      : format_(format), functions_(functions), in_(in), out_(out) {}

  /// Reads a call, or a list of them, with the marks around it.
  Reading<bool> read();
  /// Reads a call of this function, whose arguments come next.
  Reading<bool> call_of(const std::string& called);
  /// Whether a call can begin with this byte, where the answer is at. Others need not be tried.
  bool may_begin(char c) const;

private:
  // These read a part of a text and return whether it was there.
  Reading<bool> accept(std::string_view text);
  Reading<bool> accept_mark(std::string_view mark);
  /// Reads a comma, with the blanks beside it.
  Reading<bool> comma();
  /// Reads what stands between two entries of a list that ends with this byte: a comma, or nothing
  /// before the end.
  Reading<bool> between(char end);
  Reading<bool> blanks();
  Reading<bool> opening();
  Reading<bool> body();
  Reading<bool> closing();

  Reading<bool> json_calls();
  Reading<bool> json_call();
  /// Reads what follows the arguments in a call's object, up to its end.
  Reading<bool> json_rest();
  Reading<bool> json_member(std::string& key);
  Reading<bool> named_call();
  Reading<bool> channel_call();
  /// Reads a call of XML's or of tags' body.
  Reading<bool> tagged_call();
  Reading<bool> tagged_value(const ToolFunction& function, const std::string& name);
  /// Reads what stands before an argument's value, and its name. Empty: there is no argument.
  Reading<std::string> tagged_name();
  Reading<bool> dict_call();
  Reading<bool> dict_items(char end, int depth);
  Reading<bool> dict_key();
  Reading<bool> dict_value(int depth);
  Reading<bool> dict_string();
  Reading<bool> python_calls();
  Reading<bool> python_arguments(std::string& json);
  Reading<bool> python_string(std::string& json);
  Reading<bool> python_value(std::string& json, int depth);
  Reading<bool> python_items(std::string& json, char end, int depth);

  /// Reads a string of JSON, and decodes it.
  Reading<std::optional<std::string>> json_string();
  /// Reads letters, digits and `more`.
  Reading<std::string> name(std::string_view more);
  /// Reads a value of JSON. to: where it goes; null: to the arguments, as it comes.
  Reading<bool> json_value(std::string* to);
  Reading<bool> json_arguments();

  const ToolFunction* function(std::string_view name) const;
  void begin(const std::string& name);

  const ToolFormat& format_;
  std::span<const ToolFunction> functions_;
  Source& in_;
  Pieces& out_;
};

} // namespace paceline::text
