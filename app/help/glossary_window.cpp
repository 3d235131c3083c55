#include "app/help/glossary_window.h"

#include <QFile>
#include <QLineEdit>
#include <QMessageBox>
#include <QTextBrowser>

#include "app/help/manual.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"
#include "widgets/plots/axis.h"

namespace moescope {

namespace {

constexpr int kGlossaryWidth = 560, kGlossaryHeight = 560;

bool mentions(const GlossaryEntry& entry, const QString& words) {
  return entry.term.contains(words, Qt::CaseInsensitive) || entry.source.contains(words, Qt::CaseInsensitive) ||
         entry.meaning.contains(words, Qt::CaseInsensitive);
}

QString entryText(const GlossaryEntry& entry, const QString& muted) {
  QString text = QString("<p><b>%1</b>").arg(inPrint(entry.term).toHtmlEscaped());
  if (!entry.source.isEmpty())
    text += QString(" <span style='color:%1'>%2</span>").arg(muted, entry.source.toHtmlEscaped());
  return text + "<br>" + inPrint(entry.meaning).toHtmlEscaped() + "</p>";
}

}  // namespace

QList<GlossaryEntry> glossaryOf(const QString& markdown) {
  QList<GlossaryEntry> entries;
  for (const QString& line : markdown.split('\n')) {
    const QStringList cells = line.split('|');
    if (cells.size() < 5 || cells[1].contains("---") || cells[1].trimmed() == "term") continue;
    QStringList meaning = cells.mid(3, cells.size() - 4);
    entries << GlossaryEntry{cells[1].trimmed(), cells[2].trimmed().remove('`'),
                             meaning.join('|').trimmed().remove('`')};
  }
  return entries;
}

GlossaryWindow::GlossaryWindow(const QList<GlossaryEntry>& entries, QWidget* parent)
    : QDialog(parent), entries_(entries), query_(new QLineEdit), text_(new QTextBrowser) {
  setObjectName("glossary_window");
  setWindowTitle("Glossary");
  setAttribute(Qt::WA_DeleteOnClose);
  query_->setPlaceholderText("Search terms and meanings");
  query_->setAccessibleName("Search the glossary");
  query_->setClearButtonEnabled(true);
  text_->setAccessibleName("Terms");
  connect(query_, &QLineEdit::textChanged, this, &GlossaryWindow::search);
  auto* column = plainColumn(this, kSpace8);
  column->setContentsMargins(kSpace12, kSpace12, kSpace12, kSpace12);
  column->addWidget(query_);
  column->addWidget(text_, 1);
  const QSize wanted_size(withType(kGlossaryWidth, fontMetrics()), withType(kGlossaryHeight, fontMetrics()));
  resize(wanted_size.boundedTo(parent->window()->size() - QSize(2 * kSpace24, 2 * kSpace24)));
  search({});
  query_->setFocus();
}

// Lists entries whose term contains the words before entries whose source or meaning does.
void GlossaryWindow::search(const QString& typed) {
  const QString words = typed.trimmed();
  QList<GlossaryEntry> found;
  for (const GlossaryEntry& entry : entries_)
    if (words.isEmpty() || mentions(entry, words)) found << entry;
  std::stable_partition(found.begin(), found.end(),
                        [&](const GlossaryEntry& entry) { return entry.term.contains(words, Qt::CaseInsensitive); });
  const QString muted = QColor(colors(palette()).ink2).name();
  QString html;
  for (const GlossaryEntry& entry : found) html += entryText(entry, muted);
  text_->setHtml(found.isEmpty() ? "<p>No term contains " + words.toHtmlEscaped() + "</p>" : html);
}

void showGlossary(QWidget* parent) {
  if (auto* open = parent->findChild<GlossaryWindow*>()) return open->raise();
  QFile file(manualPage("glossary.md"));
  if (!file.open(QIODevice::ReadOnly)) {
    QMessageBox::information(parent, "MoEScope",
                             "The glossary is not installed: docs/glossary.md of the program is missing.");
    return;
  }
  (new GlossaryWindow(glossaryOf(QString::fromUtf8(file.readAll())), parent))->show();
}

}  // namespace moescope
