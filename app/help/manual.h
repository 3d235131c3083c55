// The pages of docs/, installed with the program or in the source tree beside it.
#pragma once

#include <QList>
#include <QString>

namespace moescope {

struct ManualPage {
  QString title, path;
  qsizetype places = 0;  // of searched words
};

QString manualFolder();           // empty if there is no manual
QList<ManualPage> manualPages();  // in reading order
// Returns the pages with all of the words. Pages with more of them in the title come first, then those with more
// places.
QList<ManualPage> manualPagesWith(const QStringList& words);
QString manualPage(const QString& name);            // path of "precision.md"; empty if there is no such page
ManualPage manualPageOn(const QString& workspace);  // the page about a workspace or "Lessons"; empty if there is none

}  // namespace moescope
