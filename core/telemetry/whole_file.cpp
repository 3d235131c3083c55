#include "core/telemetry/whole_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace moescope {

WholeFile::WholeFile(const std::string& path)
    : path_(path), temporary_(path + ".tmp"), file_(temporary_, std::ios::binary | std::ios::trunc) {
  if (!file_) fail();
}

WholeFile::~WholeFile() {
  if (finished_) return;
  file_.close();
  std::error_code ignored;
  std::filesystem::remove(temporary_, ignored);
}

void WholeFile::write(std::string_view text) {
  file_.write(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file_) fail();
}

void WholeFile::finish() {
  file_.close();
  if (!file_) fail();
  std::error_code error;
  std::filesystem::rename(temporary_, path_, error);
  if (error) throw std::runtime_error(path_ + ": cannot be written: " + error.message());
  finished_ = true;
}

void WholeFile::fail() const {
  throw std::runtime_error(path_ + ": cannot be written: " + std::strerror(errno));
}

}  // namespace moescope
