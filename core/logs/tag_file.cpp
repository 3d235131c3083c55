#include "core/logs/tag_file.h"

#include <cstdint>
#include <filesystem>

#include "core/files/input_file.h"
#include "core/files/whole_file.h"
#include "core/logs/tag_map.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLargestTagFile = std::uint64_t{1} << 20;
constexpr const char* kStatedNames = "stated-names.toml";

// Position of the first table of a TOML text: keys before it belong to no table.
std::size_t first_table(const std::string& toml) {
  for (std::size_t line = 0; line < toml.size();) {
    const std::size_t first = toml.find_first_not_of(" \t", line);
    if (first != std::string::npos && toml[first] == '[') return line;
    const std::size_t end = toml.find('\n', line);
    if (end == std::string::npos) break;
    line = end + 1;
  }
  return toml.size();
}

}  // namespace

std::string tag_file_beside(const std::string& log) {
  std::error_code error;
  const fs::path path = fs::absolute(log);
  return ((fs::is_directory(path, error) ? path : path.parent_path()) / kTagsBeside).string();
}

std::string tag_file_for_all_logs() {
  const std::string folder = user_tags_folder();
  return folder.empty() ? folder : (fs::path(folder) / kStatedNames).string();
}

void keep_tag_rules(const std::string& rules, const std::string& file) {
  std::error_code error;
  std::string text = fs::exists(file, error) ? read_file(file, kLargestTagFile, "mapping file") : std::string();
  std::size_t at = first_table(text);
  if (at == text.size() && !text.empty() && text.back() != '\n') at = text.append("\n").size();
  text.insert(at, rules);
  TagMap::parse(text, file);
  fs::create_directories(fs::path(file).parent_path(), error);
  write_whole_file(file, text);
}

}  // namespace moescope
