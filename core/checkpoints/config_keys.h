// Reads and checks the keys of a config.json, and finds keys that were not read.
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
  // `json` must outlive the object. `prefix` is put before keys in messages: "rope_parameters." for an inner object.
  ConfigKeys(const nlohmann::json& json, std::string path, std::string prefix = {});

  // Returns the value of the keys, which have one meaning; nullptr if all are absent or null. Throws
  // std::runtime_error with their names if two of them have different values.
  const nlohmann::json* find(std::initializer_list<const char*> keys);
  bool is_null(const char* key) const;  // true if the key is present and its value is null
  // Afterwards null means the same as an absent key for number() and count().
  void allow_null(std::initializer_list<const char*> keys) {
    for (const char* key : keys) nullable_.insert(key);
  }
  // The functions below return the value of the keys, else `missing` or nullopt. They throw std::runtime_error with the
  // name of the key if it is absent and needs a `missing`, or if its value is null, has another type or is out of
  // range. A flag that is null is false, as in Python.
  int count(std::initializer_list<const char*> keys, int lowest, int highest, std::optional<int> missing = {});
  double number(std::initializer_list<const char*> keys, double lowest, double highest,
                std::optional<double> missing = {});
  std::optional<double> number_if_there(const char* key, double lowest, double highest);
  std::optional<bool> flag(const char* key);
  std::string text(std::initializer_list<const char*> keys, const std::string& missing);
  // Returns one of `allowed`; `missing` if the key is absent.
  std::string choice(std::initializer_list<const char*> keys, std::initializer_list<const char*> allowed,
                     const std::string& missing);
  void ignore_key(std::initializer_list<const char*> keys) {
    for (const char* key : keys) read_.insert(key);
  }

  // Throws if there is a key that was not read and whose value has an effect: it is not null, false, 0 or empty.
  // Ignores keys that begin with "_".
  void require_all_read() const;
  [[noreturn]] void fail(std::string_view key, const std::string& what) const;
  const std::string& path() const { return path_; }

 private:
  const nlohmann::json& json_;
  std::string path_, prefix_;
  std::set<std::string, std::less<>> read_, nullable_;
};

}  // namespace moescope
