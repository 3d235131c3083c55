// The command line of the window program.
#pragma once

#include <QSize>
#include <QStringList>
#include <optional>

#include "app/look/theme.h"
#include "core/config/run_config.h"

namespace moescope {

// --export OUT: a picture, a table or a report of a file, without a display or user.
struct ExportRequest {
  QString out, to, panel;
  std::optional<qint64> step;
  bool is_given() const { return !to.isEmpty(); }
};

struct Arguments {
  QStringList files;               // files to open instead of training
  QStringList follow;              // logs to follow instead of training
  std::vector<RunConfig> configs;  // runs to train; the first is run A
  bool run_given = false;          // whether the command line names what to train or open
  QString lesson;                  // lesson to start; empty: none
  QString setup;                   // set-up link to open; empty: none
  QString screenshot;              // path of the picture to save; empty: an ordinary window
  ExportRequest export_request;
  std::optional<qint64> after_steps;
  QSize size;  // size of the window; invalid: as last time
  std::optional<Theme> theme;
  bool projector = false;
  QString workspace;     // workspace to show; empty: as last time
  QStringList problems;  // errors, one per line; empty: none
  QString print;         // help or version text to print instead of running
};

Arguments parseArguments(const QStringList& arguments);

}  // namespace moescope
