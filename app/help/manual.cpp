#include "app/help/manual.h"

#include <QCoreApplication>
#include <QDesktopServices>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QMap>
#include <QMessageBox>
#include <QUrl>

namespace moescope {

namespace {

constexpr int kTreeLevels = 4;  // levels from a program in a build folder up to its source tree

constexpr const char* kPages[] = {"first-hour.md",
                                  "window.md",
                                  "router-and-balance.md",
                                  "checkpoints.md",
                                  "precision.md",
                                  "comparing-runs.md",
                                  "regression-gate.md",
                                  "claims.md",
                                  "lessons.md",
                                  "logs.md",
                                  "logger.md",
                                  "python.md",
                                  "command-line.md",
                                  "cluster-model.md",
                                  "performance.md",
                                  "file-formats.md",
                                  "sources.md"};

QString titleOf(const QString& path) {
  QFile file(path);
  if (!file.open(QIODevice::ReadOnly)) return {};
  return QString::fromUtf8(file.readLine()).remove(0, 1).trimmed();
}

}  // namespace

QString manualFolder() {
  QDir folder(QCoreApplication::applicationDirPath());
  QStringList places{folder.filePath("../share/doc/moescope/docs"), folder.filePath("../share/doc/moescope"),
                     folder.filePath("docs")};
  for (int level = 0; level < kTreeLevels && folder.cdUp(); ++level) places << folder.filePath("docs");
  for (const QString& place : places)
    if (QFileInfo::exists(place + "/glossary.md")) return QDir::cleanPath(place);
  return {};
}

QString manualPage(const QString& name) {
  const QString folder = manualFolder();
  const QString path = folder + '/' + name;
  return !folder.isEmpty() && QFileInfo::exists(path) ? path : QString();
}

QList<ManualPage> manualPages() {
  QList<ManualPage> pages;
  for (const char* name : kPages)
    if (const QString path = manualPage(name); !path.isEmpty())
      if (const QString title = titleOf(path); !title.isEmpty()) pages << ManualPage{title, path};
  return pages;
}

ManualPage manualPageOn(const QString& workspace) {
  static const QMap<QString, QString> kNames{{"Overview", "first-hour.md"},      {"Router", "router-and-balance.md"},
                                             {"All-to-all", "cluster-model.md"}, {"Microscaling", "precision.md"},
                                             {"Compare", "comparing-runs.md"},   {"Cluster", "cluster-model.md"},
                                             {"Text", "router-and-balance.md"}};
  const QString path = manualPage(kNames.value(workspace));
  return path.isEmpty() ? ManualPage{} : ManualPage{titleOf(path), path};
}

void openManualPage(QWidget* parent, const QString& path) {
  if (QDesktopServices::openUrl(QUrl::fromLocalFile(path))) return;
  auto* box =
      new QMessageBox(QMessageBox::Information, "MoEScope",
                      "No viewer opened this page:\n" + QDir::toNativeSeparators(path), QMessageBox::Ok, parent);
  box->setObjectName("manual_path");
  box->setAttribute(Qt::WA_DeleteOnClose);
  box->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  box->open();
}

}  // namespace moescope
