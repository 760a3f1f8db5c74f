// The tokens that a checkpoint puts around every text.
#pragma once

#include "paceline/error.hpp"
#include "paceline/request.hpp"
#include "text/tokenizer/part.hpp"

#include <boost/json/value.hpp>
#include <string>
#include <vector>

namespace paceline::text {

struct PostProcessor {
  std::vector<TokenId> before; ///< Tokens before a text, such as a BOS.
  std::vector<TokenId> after;  ///< Tokens behind a text, such as an EOS.

  /// Reads the "post_processor" of tokenizer.json. path: for messages. part: may be null.
  static Result<PostProcessor> read(const std::string& path, const boost::json::value* part);
};

} // namespace paceline::text
