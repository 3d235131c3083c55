// The keys of a config.json, checked as they are read; those that nobody asked for are found at the end.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace moescope {

class ConfigKeys {
 public:
  // `json` must outlive it. `prefix`: of keys in messages, "rope_parameters." for an object inside.
  ConfigKeys(const nlohmann::json& json, std::string path, std::string prefix = {});

  // The value of the first key that is there and not null; nullptr: none is.
  const nlohmann::json* find(std::initializer_list<const char*> keys);
  // Throw std::runtime_error that names the key: it is missing where there is no default, of another type, or out of
  // its range.
  int count(std::initializer_list<const char*> keys, int lowest, int highest, std::optional<int> missing = {});
  double number(std::initializer_list<const char*> keys, double lowest, double highest,
                std::optional<double> missing = {});
  std::optional<double> number_if_there(const char* key, double lowest, double highest);
  std::optional<bool> flag(const char* key);
  std::string text(std::initializer_list<const char*> keys, const std::string& missing);
  // The text is one of `allowed`; `missing` where the key is not there.
  std::string choice(std::initializer_list<const char*> keys, std::initializer_list<const char*> allowed,
                     const std::string& missing);
  void pass_over(std::initializer_list<const char*> keys);

  // Throws if a key is left that nobody read and that asks for something: neither null, false, 0 nor empty.
  void require_all_read() const;
  [[noreturn]] void fail(std::string_view key, const std::string& what) const;
  const std::string& path() const { return path_; }

 private:
  const nlohmann::json& json_;
  std::string path_, prefix_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace moescope
