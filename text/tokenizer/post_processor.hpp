// Tokens that a checkpoint puts around every text.
#pragma once

#include "paceline/error.hpp"
#include "paceline/request.hpp"
#include "text/tokenizer/part.hpp"

#include <boost/json/value.hpp>
#include <string>
#include <vector>

namespace paceline::text {

struct PostProcessor {
  std::vector<TokenId> before; ///< Such as a BOS,
  std::vector<TokenId> after;  ///< or an EOS.

  /// "post_processor" of tokenizer.json. path: for messages. part: may be null.
  static Result<PostProcessor> read(const std::string& path, const boost::json::value* part);
};

} // namespace paceline::text
