// Certificates for machines that know each other.
#pragma once

#include "paceline/error.hpp"

#include <string>
#include <vector>

namespace paceline::apps {

struct Machine {
  std::vector<std::string> hosts; ///< Names and addresses; its folder has the first one's name.
};
/// "there,192.168.1.7" for each machine. Errors: what is no host, or two machines in one folder.
Result<std::vector<Machine>> read_machines(const std::vector<std::string>& texts);

/// Makes a folder, and in it one for each machine, with authority.pem, certificate.pem and key.pem:
/// an authority of its own whose key is kept nowhere, and a certificate that names the machine's
/// hosts. No machines: the three files are the folder's own, and the certificate, which names no
/// host, is good for every machine that has it. Errors: a folder that cannot be written to, or
/// holds one of these files.
Result<void> make_certificates(const std::string& folder, const std::vector<Machine>& machines);

} // namespace paceline::apps
