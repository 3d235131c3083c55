// moescope-cli export --to replay: runs as a page that plays them in a browser.
#pragma once

#include <string>
#include <vector>

namespace moescope {

// Writes the page and says how large it is. Which runs are noise twins of the first follows from their settings.
void export_replay(const std::vector<std::string>& files, const std::string& out);

}  // namespace moescope
