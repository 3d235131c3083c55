// As much of SQLite as a recording needs: a connection and prepared statements that throw.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace moescope {

// Throws std::runtime_error "PATH: <what SQLite says>" from every member that can fail.
class Connection {
 public:
  Connection(const std::string& path, int open_flags);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void execute(const char* sql);
  std::int64_t integer(const char* sql);  // first column of the first row
  [[noreturn]] void fail(std::string_view what) const;
  int last_code() const { return sqlite3_extended_errcode(db_); }
  sqlite3* handle() const { return db_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  sqlite3* db_ = nullptr;
};

class Statement {
 public:
  Statement(Connection& connection, const std::string& sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Parameters, from the left. Blobs and texts must live until the statement has run.
  Statement& bind(std::int64_t value);
  Statement& bind(double value);  // NaN binds NULL
  Statement& bind(std::string_view text);
  Statement& bind_blob(const void* data, std::size_t bytes);
  void run();    // a statement without result; ready for the next parameters
  bool next();   // the next row; false: no more
  void reset();  // ready for other parameters, before the last row

  // Columns of the current row, from the left.
  std::int64_t get_integer();
  bool get_real(double& value);  // false: NULL
  std::string get_text();
  std::span<const std::uint8_t> get_blob();  // until the next row

 private:
  Connection& connection_;
  sqlite3_stmt* statement_ = nullptr;
  int parameter_ = 0;
  int column_ = 0;
};

}  // namespace moescope
