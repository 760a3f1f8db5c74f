// The two kinds of request for a text in OpenAI's API.
#pragma once

namespace paceline::apps::serve {

enum class Api { completions, chat };

} // namespace paceline::apps::serve
