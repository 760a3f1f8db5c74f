// Certificates for machines that know each other.
#pragma once

#include "paceline/error.hpp"

#include <string>

namespace paceline::apps {

/// Writes authority.pem, certificate.pem and key.pem to a folder, which it makes: an authority of
/// its own whose key is kept nowhere, and the one certificate that it ever signs. Every machine
/// that has the three files is trusted by all others that have them. Errors: a folder that cannot
/// be written to, or holds one of these files.
Result<void> make_certificates(const std::string& folder);

} // namespace paceline::apps
