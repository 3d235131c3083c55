// moescope FILE --export OUT: writes a picture, a table or a report of a file, without a display or user.
#pragma once

#include <QCommandLineParser>
#include <QString>
#include <optional>

namespace moescope {

class MainWindow;
struct Arguments;

struct ExportRequest {
  QString out, to, panel;
  std::optional<qint64> step;
  bool is_given() const { return !to.isEmpty(); }
};

void addExportOptions(QCommandLineParser& parser);
ExportRequest readExport(const QCommandLineParser& parser, QStringList& problems);

// Opens the files, writes the requested output and quits.
void takeExport(MainWindow* window, const Arguments& arguments);

}  // namespace moescope
