// OpenAI's two ways to ask for a text.
#pragma once

namespace paceline::apps::serve {

enum class Api { completions, chat };

} // namespace paceline::apps::serve
