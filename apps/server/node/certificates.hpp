// Certificates for machines that know each other.
#pragma once

#include "paceline/error.hpp"

#include <string>
#include <vector>

namespace paceline::apps {

struct Machine {
  std::vector<std::string> hosts; ///< Names and addresses; its folder has the first one's name.
};
/// Reads a text such as "there,192.168.1.7" for each machine. Errors: a text that is no host, or
/// two machines that would have the same folder.
Result<std::vector<Machine>> read_machines(const std::vector<std::string>& texts);

/// Makes a folder, and in it one for each machine, with authority.pem, certificate.pem and key.pem:
/// an authority of its own whose key is kept nowhere, and a certificate that names the machine's
/// hosts. If no machines are given, the three files are in the folder itself, and the certificate,
/// which names no host, is good for every machine that has it. Errors: a folder that cannot be
/// written to, or that holds one of these files already.
Result<void> make_certificates(const std::string& folder, const std::vector<Machine>& machines);

} // namespace paceline::apps
