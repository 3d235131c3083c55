// The command line of the window program.
#pragma once

#include <QSize>
#include <QStringList>
#include <optional>

#include "app/look/theme.h"
#include "app/program/export_request.h"
#include "core/config/run_config.h"

namespace moescope {

struct Arguments {
  QStringList files;               // open these instead of training
  QStringList follow;              // logs to follow instead
  std::vector<RunConfig> configs;  // what to train; the first is run A
  bool run_given = false;          // a person said what to train or to open
  QString attach;                  // HOST:PORT of a training to look on at; empty: none
  QString lesson;                  // empty: none; else it begins
  QString setup;                   // a set-up link to open; empty: none
  QString screenshot;              // empty: an ordinary window
  ExportRequest export_request;
  std::optional<qint64> after_steps;
  QSize size;  // invalid: as last time
  std::optional<Theme> theme;
  bool projector = false;
  QString workspace;     // empty: as last time
  QStringList problems;  // one per line, as on the CLI; empty: all is well
  QString print;         // help or version text to print instead of running
};

Arguments parseArguments(const QStringList& arguments);

}  // namespace moescope
