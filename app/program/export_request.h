// moescope FILE --export OUT: a picture, a table or a report of a file, without a display and without a person.
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
  bool wanted() const { return !to.isEmpty(); }
};

void addExportOptions(QCommandLineParser& parser);
ExportRequest readExport(const QCommandLineParser& parser, QStringList& problems);

// Opens the files, writes what was asked for, quits.
void takeExport(MainWindow* window, const Arguments& arguments);

// Of a workspace by name and of a panel by title, as people write them: case, spaces and hyphens do not matter.
bool sameName(const QString& a, const QString& b);

}  // namespace moescope
