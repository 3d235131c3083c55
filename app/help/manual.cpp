#include "app/help/manual.h"

#include <QCoreApplication>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QMap>
#include <QRegularExpression>
#include <algorithm>
#include <functional>

namespace moescope {

namespace {

constexpr int kTreeLevels = 4;  // levels from a program in a build folder up to its source tree

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

// The pages are those that the page of contents links, in its order.
QList<ManualPage> manualPages() {
  const QString contents_path = manualPage("index.md");
  QFile contents(contents_path);
  if (contents_path.isEmpty() || !contents.open(QIODevice::ReadOnly)) return {};
  static const QRegularExpression kRow(QStringLiteral(R"(\| \[([^\]]+)\]\(([\w-]+\.md)\) \|)"));
  const QString text = QString::fromUtf8(contents.readAll());
  QList<ManualPage> pages;
  for (auto rows = kRow.globalMatch(text); rows.hasNext();) {
    const auto row = rows.next();
    if (const QString path = manualPage(row.captured(2)); !path.isEmpty()) pages << ManualPage{row.captured(1), path};
  }
  return pages;
}

QList<ManualPage> manualPagesWith(const QStringList& words) {
  static const QList<std::pair<ManualPage, QString>> kTexts = [] {
    QList<std::pair<ManualPage, QString>> texts;
    for (const ManualPage& page : manualPages()) {
      QFile file(page.path);
      if (file.open(QIODevice::ReadOnly)) texts.append({page, QString::fromUtf8(file.readAll())});
    }
    return texts;
  }();
  QList<ManualPage> found;
  for (const auto& [page, text] : kTexts) {
    ManualPage hit = page;
    for (const QString& word : words) {
      const qsizetype places = text.count(word, Qt::CaseInsensitive);
      hit.places = places > 0 && hit.places >= 0 ? hit.places + places : -1;
    }
    if (hit.places > 0) found << hit;
  }
  const auto weight = [&](const ManualPage& page) {
    const auto is_in_title = [&](const QString& word) { return page.title.contains(word, Qt::CaseInsensitive); };
    return std::pair(std::ranges::count_if(words, is_in_title), page.places);
  };
  std::ranges::stable_sort(found, std::greater{}, weight);
  return found;
}

ManualPage manualPageOn(const QString& workspace) {
  static const QMap<QString, QString> kNames{{"Overview", "first-hour.md"},       {"Lessons", "lessons.md"},
                                             {"Router", "router-and-balance.md"}, {"All-to-all", "cluster-model.md"},
                                             {"Microscaling", "precision.md"},    {"Compare", "comparing-runs.md"},
                                             {"Cluster", "cluster-model.md"},     {"Text", "router-and-balance.md"}};
  const QString path = manualPage(kNames.value(workspace));
  for (const ManualPage& page : manualPages())
    if (page.path == path) return page;
  return {};
}

}  // namespace moescope
