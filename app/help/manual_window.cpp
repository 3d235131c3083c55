#include "app/help/manual_window.h"

#include <QDesktopServices>
#include <QFileInfo>
#include <QImage>
#include <QLabel>
#include <QListWidget>
#include <QPushButton>
#include <QRegularExpression>
#include <QScrollBar>
#include <QTextBlock>
#include <QTextBrowser>
#include <QTextTable>
#include <algorithm>

#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"

namespace moescope {

namespace {

constexpr int kTitleRole = Qt::UserRole + 1;
constexpr int kSearchMs = 300;  // pause in typing after which the page is laid out with the hits
constexpr int kManualWidth = 1040, kManualHeight = 720, kPagesWidth = 248;

// Makes pictures as wide as the text.
class ManualText : public QTextBrowser {
 public:
  QVariant loadResource(int type, const QUrl& name) override {
    const QVariant loaded = QTextBrowser::loadResource(type, name);
    if (type != QTextDocument::ImageResource) return loaded;
    const QImage image = QImage::fromData(loaded.toByteArray());
    return image.scaledToWidth(qMin(image.width(), viewport()->width() - 2 * kSpace24), Qt::SmoothTransformation);
  }
};

// Returns the name by which links call a heading: "The account of what was read" is "the-account-of-what-was-read".
QString anchorOf(const QString& heading) {
  static const QRegularExpression kDropped(QStringLiteral("[^\\w\\- ]"));
  return heading.toLower().remove(kDropped).replace(' ', '-');
}

// Sets the spaces between paragraphs, which Markdown does not state, and the lines of tables.
void formatPage(QTextDocument* document, const QColor& line) {
  document->setDocumentMargin(kSpace16);
  for (QTextBlock block = document->begin(); block.isValid(); block = block.next()) {
    QTextBlockFormat format;
    format.setTopMargin(block.blockFormat().headingLevel() > 0 ? kSpace16 : 0);
    format.setBottomMargin(block.textList() ? kSpace4 : kSpace8);
    QTextCursor cursor(block);
    const bool is_code = block.blockFormat().hasProperty(QTextFormat::BlockCodeLanguage);
    if (is_code) format = QTextBlockFormat();
    format.setNonBreakableLines(false);  // wraps long command lines
    if (!cursor.currentTable()) cursor.mergeBlockFormat(format);
  }
  for (QTextFrame* frame : document->rootFrame()->childFrames())
    if (auto* table = qobject_cast<QTextTable*>(frame)) {
      QTextTableFormat format = table->format();
      format.setWidth(QTextLength(QTextLength::PercentageLength, 99));
      format.setBorder(1);
      format.setBorderBrush(line);
      format.setBorderCollapse(true);
      format.setCellPadding(kSpace4);
      format.setCellSpacing(0);
      table->setFormat(format);
    }
}

}  // namespace

ManualWindow::ManualWindow(QWidget* parent)
    : QDialog(parent),
      pages_(new QListWidget),
      query_(new QLineEdit),
      missing_(new QLabel("Not in the manual")),
      text_(new ManualText) {
  setObjectName("manual_window");
  setWindowTitle("Manual");
  setAttribute(Qt::WA_DeleteOnClose);
  auto* back = new QPushButton("Back");
  back->setEnabled(false);
  back->setAutoDefault(false);
  query_->setPlaceholderText("Search the manual");
  query_->setAccessibleName("Search the manual");
  query_->setClearButtonEnabled(true);
  pages_->setAccessibleName("Pages");
  pages_->setSpacing(2);
  pages_->setFixedWidth(withType(kPagesWidth, fontMetrics()));
  for (const ManualPage& page : manualPages()) {
    auto* item = new QListWidgetItem(page.title, pages_);
    item->setData(Qt::UserRole, page.path);
    item->setData(kTitleRole, page.title);
  }
  text_->setAccessibleName("Page");
  text_->setOpenLinks(false);
  text_->setWordWrapMode(QTextOption::WordWrap);  // so that tables do not break names within words
  missing_->hide();
  auto* column = plainColumn(this, kSpace8);
  column->setContentsMargins(kSpace12, kSpace12, kSpace12, kSpace12);
  auto* top = plainRow(kSpace8);
  column->addLayout(top);
  top->addWidget(back);
  top->addWidget(query_, 1);
  top->addWidget(missing_);
  auto* row = plainRow(kSpace8);
  column->addLayout(row, 1);
  row->addWidget(pages_);
  row->addWidget(text_, 1);
  connect(back, &QPushButton::clicked, text_, &QTextBrowser::backward);
  connect(text_, &QTextBrowser::backwardAvailable, back, &QWidget::setEnabled);
  connect(text_, &QTextBrowser::anchorClicked, this, &ManualWindow::follow);
  connect(text_, &QTextBrowser::sourceChanged, this, &ManualWindow::markPage);
  connect(pages_, &QListWidget::itemClicked, this, [this](const QListWidgetItem* item) {
    showPage(QUrl::fromLocalFile(item->data(Qt::UserRole).toString()));
    showHit(-1);
  });
  connect(query_, &QLineEdit::returnPressed, this, [this] { search(text_->textCursor().position()); });
  connect(query_, &QLineEdit::textEdited, &pause_, qOverload<>(&QTimer::start));
  pause_.setSingleShot(true);
  pause_.setInterval(kSearchMs);
  connect(&pause_, &QTimer::timeout, this, [this] {
    const QString best = listHits();
    if (!best.isEmpty() && best != text_->source().toLocalFile()) showPage(QUrl::fromLocalFile(best));
    search(-1);
  });
  const QSize wanted_size(withType(kManualWidth, fontMetrics()), withType(kManualHeight, fontMetrics()));
  resize(wanted_size.boundedTo(parent->window()->size() - QSize(2 * kSpace24, 2 * kSpace24)));
  query_->setFocus();
}

void ManualWindow::showPage(const QUrl& page) {
  text_->document()->setLayoutEnabled(false);  // else each cell of a table lays out the page anew, for seconds
  text_->setSource(page, QTextDocument::MarkdownResource);
  text_->document()->setLayoutEnabled(true);
  text_->document()->markContentsDirty(0, text_->document()->characterCount());
  if (page.fragment().isEmpty()) return;
  for (QTextBlock block = text_->document()->begin(); block.isValid(); block = block.next())
    if (block.blockFormat().headingLevel() > 0 && anchorOf(block.text()) == page.fragment()) {
      text_->moveCursor(QTextCursor::End);  // so that the heading comes to the top of the view
      text_->setTextCursor(QTextCursor(block));
    }
}

void ManualWindow::follow(const QUrl& link) {
  const QUrl target = text_->source().resolved(link);
  if (target.path().endsWith(".md") && target.isLocalFile())
    showPage(target);
  else
    QDesktopServices::openUrl(target);
}

void ManualWindow::markPage(const QUrl& source) {
  formatPage(text_->document(), QColor(colors(palette()).hairline));
  for (int row = 0; row < pages_->count(); ++row)
    if (pages_->item(row)->data(Qt::UserRole).toString() == source.toLocalFile()) pages_->setCurrentRow(row);
}

QStringList ManualWindow::words() const {
  const auto hit = std::ranges::find(hits_, text_->source().toLocalFile(), &ManualPage::path);
  return hit == hits_.end() ? QStringList() : hit->words;
}

// Lists the pages with what is searched, with the number of places. Returns the path of the first of them.
QString ManualWindow::listHits() {
  const ManualHits hits = isSearching() ? manualHits(query_->text()) : ManualHits();
  hits_ = hits.pages;
  missing_->setVisible(!hits.similar.isEmpty());
  missing_->setText(hits.similar.isEmpty() ? QString("Not in the manual")
                                           : QString("Not in the manual; nearest: %1").arg(hits.similar));
  for (int row = 0; row < pages_->count(); ++row) {
    QListWidgetItem* item = pages_->item(row);
    const QString title = item->data(kTitleRole).toString();
    const auto hit = std::ranges::find(hits_, item->data(Qt::UserRole).toString(), &ManualPage::path);
    item->setText(hit != hits_.end() && hit->places > 0 ? QString("%1 (%2)").arg(title).arg(hit->places) : title);
    item->setHidden(!hits_.isEmpty() && hit == hits_.end());
  }
  return hits_.value(0).path;
}

// Marks the words, and shows the next paragraph with most of them in the middle of the view.
bool ManualWindow::showHit(int behind) {
  QList<QTextEdit::ExtraSelection> marks;
  const auto number = [this](const QTextBlock& block) {
    return std::ranges::count_if(words(),
                                 [&](const QString& word) { return block.text().contains(word, Qt::CaseInsensitive); });
  };
  qsizetype word_count = 1;
  const QTextBlock first = text_->document()->begin();
  for (QTextBlock block = first; block.isValid(); block = block.next())
    word_count = std::max(word_count, number(block));
  QTextBlock hit = first;
  while (hit.isValid() && (hit.position() <= behind || number(hit) < word_count)) hit = hit.next();
  const Colors& c = colors(palette());
  QTextCharFormat shown, other;
  shown.setBackground(QColor(c.accent));
  shown.setForeground(QColor(c.on_accent));
  other.setBackground(QColor(c.accent_soft));
  for (const QString& word : words())
    for (QTextCursor at = text_->document()->find(word); !at.isNull(); at = text_->document()->find(word, at))
      marks.append({at, at.block() == hit ? shown : other});
  text_->setExtraSelections(marks);
  if (!hit.isValid()) return false;
  text_->setTextCursor(QTextCursor(hit));
  QScrollBar* bar = text_->verticalScrollBar();
  bar->setValue(bar->value() + text_->cursorRect().top() - text_->viewport()->height() / 2);
  return true;
}

void ManualWindow::search(int behind) {
  const QString best = listHits();
  const QListWidgetItem* shown = pages_->currentItem();
  if (!best.isEmpty() && (!shown || shown->isHidden())) {
    showPage(QUrl::fromLocalFile(best));
    behind = -1;
  }
  bool found = !isSearching() || (!best.isEmpty() && (showHit(behind) || words().isEmpty()));
  for (int n = 1, row = qMax(0, pages_->currentRow()); n <= pages_->count() && !best.isEmpty() && !found; ++n) {
    const QListWidgetItem* item = pages_->item((row + n) % pages_->count());
    if (item->isHidden()) continue;
    showPage(QUrl::fromLocalFile(item->data(Qt::UserRole).toString()));
    found = showHit(-1) || words().isEmpty();
  }
  if (found) return;
  text_->setExtraSelections({});
  missing_->show();
}

void ManualWindow::searchFor(const QString& text) {
  query_->setText(text);
  search(-1);
}

ManualWindow* openManualPage(QWidget* parent, const QString& path) {
  auto* manual = parent->window()->findChild<ManualWindow*>();
  if (!manual) manual = new ManualWindow(parent->window());
  manual->show();
  manual->raise();
  const QString file = path.section('#', 0, 0);
  QUrl page = QUrl::fromLocalFile(QFileInfo(file).isAbsolute() ? file : manualPage(file));
  page.setFragment(path.section('#', 1));
  manual->showPage(page);
  return manual;
}

}  // namespace moescope
