// Logs in many forms: a file of a log is written into a folder and opened.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "core/logs/open_runs.h"
#include "tests/support/event_bytes.h"
#include "tests/support/problem_of.h"
#include "tests/support/test_folder.h"

namespace moescope {

struct FileOfLog {
  std::string name, text;
};

class LogForms : public testing::Test {
 protected:
  std::string write(const FileOfLog& file) const {
    const std::string path = folder_ / file.name;
    write_bytes(path, file.text);
    return path;
  }
  OpenedRuns open(const FileOfLog& file, const ImportOptions& options = {}) const {
    return open_runs({write(file)}, options, 4);
  }
  std::string problem(const FileOfLog& file, const ImportOptions& options = {}) const {
    return problem_of([&] { open(file, options); });
  }
  TestFolder folder_{"log_forms"};
};

}  // namespace moescope
