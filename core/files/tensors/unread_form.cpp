#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "core/files/assets.h"
#include "core/files/folder_walk.h"
#include "core/files/input_file.h"
#include "core/files/sqlite.h"
#include "core/files/tensors/open_tensors.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/toml_section.h"

namespace moescope {
namespace {

using namespace std::string_view_literals;
namespace fs = std::filesystem;

constexpr std::size_t kFormBytes = 4096;
constexpr std::string_view kSqlite = "SQLite format 3";
constexpr const char* kFormsAsset = "forms/unread.toml";  // describes the keys

struct UnreadForm {
  std::string begins, named, text;
  std::size_t at = 0;
  std::vector<std::string> holds, tables;
};

UnreadForm read_form(TomlSection& section) {
  UnreadForm form;
  form.begins = unescape_bytes(section.text("begins")).value();
  form.at = section.integer("at", 0, 0, kFormBytes);
  form.named = section.text("named");
  form.holds = section.texts("holds");
  form.tables = section.texts("tables");
  form.text = section.required_text("is");
  return form;
}

const std::vector<UnreadForm>& unread_forms() {
  static const std::vector<UnreadForm> all_forms = [] {
    std::vector<UnreadForm> forms;
    read_valid_toml(asset(kFormsAsset), kFormsAsset, [&](TomlSection& file) {
      file.for_each_section("form", [&](TomlSection& section) { forms.push_back(read_form(section)); });
    });
    return forms;
  }();
  return all_forms;
}

bool matches(const std::string& name, const std::string& pattern) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

// Returns the text of the first form that has names under `keys`, all of which the path holds; "" if there is none.
template <class Holds>
std::string form_with(std::vector<std::string> UnreadForm::*keys, Holds holds) {
  for (const UnreadForm& form : unread_forms())
    if (!(form.*keys).empty() && std::ranges::all_of(form.*keys, holds)) return form.text;
  return {};
}

// Writes the paths in place of FOLDER and FILE, so that a command can be copied.
std::string with_paths(std::string text, const fs::path& folder, const fs::path& file) {
  for (const auto& [word, path] : {std::pair("FOLDER"sv, folder.empty() ? "." : folder), std::pair("FILE"sv, file)})
    if (const std::size_t at = text.find(word); at != std::string::npos)
      text.replace(at, word.size(), '"' + printable(path.string()) + '"');
  return text;
}

// True for an importance matrix in llama.cpp's format before GGUF: a count of entries, then the length of the first
// name, and the name.
bool begins_like_old_imatrix(std::string_view bytes) {
  constexpr std::size_t kName = 8;
  if (bytes.size() < kName + 4) return false;
  const auto small_number = [&](std::size_t at) { return bytes[at + 2] == 0 && bytes[at + 3] == 0; };
  const std::string_view name = bytes.substr(kName);
  return small_number(0) && small_number(4) && (name.starts_with("blk.") || name.starts_with("output"));
}

std::string form_of_database(const std::string& path) {
  std::set<std::string> tables;
  Connection database(path, SQLITE_OPEN_READONLY);
  Statement names(database, "SELECT name FROM sqlite_master WHERE type = 'table' LIMIT 1000");
  while (names.next()) tables.insert(names.get_text("the name of a table"));
  if (tables.contains("metrics")) return {};  // MLflow, Trackio
  const auto is_table = [&](const std::string& name) { return tables.contains(name); };
  if (std::string form = form_with(&UnreadForm::tables, is_table); !form.empty()) return form;
  std::string list;
  for (const std::string& table : tables)
    if (list.size() < 200) list += (list.empty() ? "" : ", ") + table;
  return "is an SQLite database of another program, which is not read (its tables: " + (list.empty() ? "none" : list) +
         ")";
}

std::string form_of_file(const std::string& path) {
  const std::string bytes = beginning_of(path, kFormBytes);
  if (bytes.starts_with(kSqlite)) return form_of_database(path);
  const std::string name = fs::path(path).filename().string();
  for (const UnreadForm& form : unread_forms())
    if ((!form.begins.empty() &&
         bytes.compare(std::min(form.at, bytes.size()), form.begins.size(), form.begins) == 0) ||
        matches(name, form.named))
      return form.text;
  if (begins_like_old_imatrix(bytes))
    return "is an importance matrix of llama.cpp in its old format, which has no counts of experts: llama-imatrix "
           "--output-format gguf writes them";
  return {};
}

std::string form_of_folder(const fs::path& folder, bool with_folders_in_it) {
  const std::vector<std::string> names = names_in(folder);
  const auto holds = [&](const std::string& pattern) {
    return std::ranges::any_of(names, [&](const std::string& name) { return matches(name, pattern); });
  };
  if (const std::string form = form_with(&UnreadForm::holds, holds); !form.empty()) return with_paths(form, folder, {});
  if (const fs::path plain = plain_path(folder); plain.filename() == ".neptune")
    return form_of_folder(plain.parent_path(), false);
  for (const std::string& name : names) {
    std::error_code error;
    if (!with_folders_in_it || !fs::is_directory(folder / name, error) || leads_out_of(folder, folder / name)) continue;
    if (const std::string form = form_of_folder(folder / name, false); !form.empty())
      return "holds the folder " + printable(name) + ", which " + form;
  }
  return {};
}

}  // namespace

bool is_binary(std::string_view bytes) {
  return std::ranges::any_of(bytes, [](char c) {
    const auto code = static_cast<unsigned char>(c);
    return code < 0x20 && "\a\b\t\n\v\f\r\x1b"sv.find(c) == std::string_view::npos;
  });
}

std::string unread_form(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return form_of_folder(path, true);
  return with_paths(form_of_file(path), fs::path(path).parent_path(), path);
}

}  // namespace moescope
