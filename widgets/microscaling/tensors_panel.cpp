#include "widgets/microscaling/tensors_panel.h"

#include <QFileInfo>
#include <QHeaderView>
#include <QPainter>
#include <QPushButton>
#include <QTimer>
#include <algorithm>
#include <utility>

#include "widgets/look/counted_text.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/row_delegate.h"
#include "widgets/look/tokens.h"
#include "widgets/microscaling/tables.h"
#include "widgets/panel/format_text.h"
#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

// Limit on the elements that are read of a tensor; larger tensors are sampled.
constexpr std::size_t kMaxShownElements = std::size_t{1} << 20;

// Limit on measured tensors. In a file with more, only visible tensors are measured.
constexpr std::size_t kMeasuredTensors = 256;

// Returns the figures of slice 0 of a tensor in one format.
QuantSums figuresOf(const TensorSource& source, const OperandFormat& format, BlockAxis axis, bool* sampled) {
  TensorSource::Sample sample = source.sample(0, kMaxShownElements);
  *sampled = !sample.whole || source.slices() > 1;
  QuantSums sums;
  std::vector<float> out(sample.values.size());
  for (std::size_t g = 0; g + 1 < sample.row_groups.size(); ++g) {
    const std::size_t first = sample.row_groups[g] * sample.cols,
                      rows = sample.row_groups[g + 1] - sample.row_groups[g];
    if (rows > 0)
      quantize_operand({{sample.values.data() + first, rows, sample.cols, sample.cols}, format, axis, {}, &sums},
                       {out.data() + first, rows, sample.cols});
  }
  return sums;
}

// Entries of a file: tensors, then scales of other tensors, then entries that cannot be read.
std::vector<TensorEntry> entriesOf(const std::shared_ptr<const TensorFile>& file) {
  std::vector<TensorEntry> entries;
  for (const bool scales : {false, true})
    for (std::size_t i = 0; i < file->tensors().size(); ++i) {
      const TensorView& tensor = file->tensors()[i];
      if ((tensor.holds == TensorView::Holds::scales) != scales) continue;
      TensorEntry& entry = entries.emplace_back();
      entry.source = TensorSource(file, i);
      entry.usable = tensor.floating() && tensor.holds != TensorView::Holds::codes && entry.source.valid();
      entry.scales = scales;
      entry.note = QString::fromStdString(tensor.note);
    }
  for (const SkippedEntry& skipped : file->skipped())
    entries.push_back({.source = TensorSource::unread(QString::fromStdString(skipped.name)),
                       .usable = false,
                       .note = QString::fromStdString(skipped.reason)});
  return entries;
}

// Returns shorter forms of a name: without its middle, or without the parts before each of its dots.
QStringList shorterNames(const QString& name) {
  QStringList forms{name};
  const QString comma = QStringLiteral(", ");
  if (name.count(comma) > 1) forms << name.section(comma, 0, 0) + comma + name.section(comma, -1);
  if (name.contains(comma)) forms << name.section(comma, -1);
  for (auto at = name.indexOf(QLatin1Char('.')); at >= 0; at = name.indexOf(QLatin1Char('.'), at + 1))
    forms << name.mid(at + 1);
  return forms;
}

// Paints headings of groups, and names of tensors with their shapes if there is room.
class NameDelegate : public RowDelegate {
 public:
  using RowDelegate::RowDelegate;

  void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    paintRow(*painter, option, index);
    QStyleOptionViewItem row = option;
    initStyleOption(&row, index);
    const bool heading = index.data(TensorListModel::kHeadingRole).toBool();
    const bool enabled = index.flags() & Qt::ItemIsEnabled;
    painter->save();
    painter->setFont(heading ? semibold(option.font) : row.font);
    painter->setPen(heading || enabled ? option.palette.color(QPalette::Active, QPalette::Text)
                                       : mutedText(option.palette));
    QRect place = option.rect.adjusted(heading ? kSpace4 : kSpace16, 0, 0, 0);
    if (heading && option.widget) place.setRight(option.widget->width());  // a heading has no figures
    const QStringList names = shorterNames(row.text);
    QString name = fittingText(names, painter->fontMetrics(), place.width());
    if (name.isEmpty()) name = elidedWords(names.back(), painter->fontMetrics(), place.width());
    painter->drawText(place, Qt::AlignLeft | Qt::AlignVCenter, name);
    if (!heading)
      paintShape(*painter, place.adjusted(painter->fontMetrics().horizontalAdvance(name), 0, 0, 0), index, option);
    painter->restore();
  }

 private:
  static void paintShape(QPainter& painter, const QRect& room, const QModelIndex& index,
                         const QStyleOptionViewItem& option) {
    const QRect place = room.adjusted(kSpace8, 0, 0, 0);
    painter.setFont(typeFont(option.font, Type::secondary));
    painter.setPen(mutedText(option.palette));
    const QString shape = index.data(TensorListModel::kShapeRole).toString();
    painter.drawText(place, Qt::AlignLeft | Qt::AlignVCenter,
                     fittingText({shape}, painter.fontMetrics(), place.width()));
  }
};

}  // namespace

TensorsPanel::TensorsPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Tensors", Provenance::measured_here, parent) {
  makeControls();
  makeTable();
  auto* filter_row = new QWidget(this);
  auto* row = new QVBoxLayout(filter_row);
  row->setContentsMargins(0, kSpace4, 0, kSpace4);
  row->addWidget(filter_);
  connect(&model_, &TensorListModel::figuresWanted, this, [this] {
    if (!std::exchange(scheduled_, true)) QTimer::singleShot(0, this, &TensorsPanel::computeWanted);
  });
  addBody(filter_row, 0);
  addBody(notice_);
  addBody(view_);
  showError({});
}

void TensorsPanel::makeTable() {
  view_ = new QTableView(this);
  view_->setModel(&model_);
  makePlain(view_, title());
  view_->horizontalHeader()->setSectionResizeMode(QHeaderView::Fixed);
  view_->horizontalHeader()->setSectionResizeMode(TensorListModel::kName, QHeaderView::Stretch);
  view_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  view_->setWordWrap(false);
  view_->setTextElideMode(Qt::ElideLeft);  // cuts the beginnings of names, which differ at their ends
  view_->setItemDelegate(new RowDelegate(view_));
  view_->setItemDelegateForColumn(TensorListModel::kName, new NameDelegate(view_));
  followFont(view_, [this] { fitColumns(); });
  connect(view_->selectionModel(), &QItemSelectionModel::currentRowChanged, this, [this](const QModelIndex& index) {
    const int entry = model_.entryAt(index.row());
    if (entry >= 0) emit tensorChosen(model_.entries()[entry].source);
  });
}

void TensorsPanel::fitColumns() {
  const QFontMetrics metrics(semibold(view_->font()));
  view_->verticalHeader()->setDefaultSectionSize(metrics.height() + kSpace4);
  for (const int column : {TensorListModel::kSqnr, TensorListModel::kUnderflow})
    view_->setColumnWidth(column, std::max(metrics.horizontalAdvance(QStringLiteral("<0.001 %")) + kSpace16,
                                           view_->horizontalHeader()->sectionSizeHint(column) + kSpace8));
}

void TensorsPanel::makeControls() {
  auto* open = new QPushButton("Open", this);
  followFont(open, [open] { open->setFixedWidth(open->fontMetrics().horizontalAdvance(open->text()) + kSpace24); });
  open->setAccessibleName("Open tensors");
  open->setToolTip(
      "Open a file of tensors (.safetensors, .npy, .npz, .pt) or the index of a checkpoint; or drop one here");
  connect(open, &QPushButton::clicked, this, &TensorsPanel::openRequested);
  addControl(open);
  cancel_ = new QAction("Stop measuring", this);
  connect(cancel_, &QAction::triggered, this, &TensorsPanel::cancel);
  cancel_->setEnabled(false);
  addOption(cancel_);
  filter_ = new QLineEdit(this);
  filter_->setPlaceholderText("Filter by name");
  filter_->setAccessibleName("Filter tensors by name");
  filter_->setClearButtonEnabled(true);
  connect(filter_, &QLineEdit::textChanged, &model_, &TensorListModel::setFilter);
  notice_ = new QLabel(this);
  notice_->setWordWrap(true);
  notice_->setAlignment(Qt::AlignCenter);
  notice_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  notice_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Expanding);
}

void TensorsPanel::showError(const QString& error) {
  error_ = error;
  const bool empty = model_.entries().empty();
  notice_->setText(error.isEmpty() ? QString("Open or drop a file of tensors: .safetensors, .npy, .pt") : error);
  notice_->setVisible(!error.isEmpty() || empty);
  view_->setVisible(error.isEmpty() && !empty);
  filter_->setVisible(view_->isVisibleTo(this));
}

bool TensorsPanel::openFile(const QString& path, std::optional<DType> bytesAre) {
  cancel();
  ++generation_;
  std::vector<TensorEntry> entries;
  QString error;
  std::size_t untyped_bits = 0;
  try {
    const auto file = std::make_shared<const TensorFile>(open_tensors(path.toStdString(), bytesAre));
    for (const SkippedEntry& skipped : file->skipped()) untyped_bits = std::max(untyped_bits, skipped.untyped_bits);
    entries = entriesOf(file);
    if (entries.empty()) error = QString("%1 holds no tensors").arg(path);
  } catch (const UntypedArray& array) {
    error = QString::fromStdString(array.what());
    untyped_bits = array.bits;
  } catch (const std::exception& problem) {
    error = QString::fromStdString(problem.what());
  }
  path_ = path;
  measures_all_ = entries.size() <= kMeasuredTensors;
  model_.setEntries(std::move(entries));
  model_.setLazy(true);
  showError(error);
  update();
  emit figuresChanged();
  emit fileOpened(error.isEmpty() ? path : QString());
  QTimer::singleShot(0, this, &TensorsPanel::computeWanted);
  if (untyped_bits > 0) emit typeWanted(path, untyped_bits);
  if (!error.isEmpty()) {
    emit tensorChosen({});
    return false;
  }
  const auto usable = std::ranges::find(model_.entries(), true, &TensorEntry::usable);
  if (usable != model_.entries().end()) select(to_int(usable - model_.entries().begin()));
  return true;
}

void TensorsPanel::addTensor(const TensorSource& source) {
  std::vector<TensorEntry> entries = model_.entries();
  const int known = entryNamed(source.name()), at = known < 0 ? to_int(entries.size()) : known;
  if (known < 0) entries.emplace_back();
  entries[at] = {.source = source, .usable = source.valid(), .note = {}};
  showEntries(std::move(entries));
  emit figuresChanged();
  select(at);
}

void TensorsPanel::removeTensors(const std::function<bool(const TensorSource&)>& is_removed) {
  std::vector<TensorEntry> entries = model_.entries();
  if (std::erase_if(entries, [&](const TensorEntry& entry) { return is_removed(entry.source); }) == 0) return;
  showEntries(std::move(entries));
}

void TensorsPanel::showEntries(std::vector<TensorEntry> entries) {
  ++generation_;
  queue_.clear();  // the indices of entries may have changed
  for (TensorEntry& entry : entries) entry.state = TensorEntry::Figures::none;
  model_.setEntries(std::move(entries));
  showError({});
}

void TensorsPanel::setFormat(const OperandFormat& format, BlockAxis axis) {
  ++generation_;
  format_ = format;
  axis_ = axis;
  queue_.clear();
  model_.setLazy(true);
  model_.forgetFigures();
  emit figuresChanged();
  if (!std::exchange(scheduled_, true)) QTimer::singleShot(0, this, &TensorsPanel::computeWanted);
}

void TensorsPanel::select(int tensor) {
  if (model_.rowOf(tensor) < 0) filter_->clear();  // the tensor is filtered out
  if (const int row = model_.rowOf(tensor); row >= 0) view_->setCurrentIndex(model_.index(row, 0));
}

int TensorsPanel::entryNamed(const QString& name) const {
  const std::vector<TensorEntry>& entries = model_.entries();
  return index_in(entries, name, [](const TensorEntry& entry) { return entry.source.name(); });
}

bool TensorsPanel::selectNamed(const QString& name) {
  const int entry = entryNamed(name);
  if (entry >= 0) select(entry);
  return entry >= 0;
}

// Measures visible tensors first, then the rest of a file.
int TensorsPanel::nextToMeasure() {
  const std::vector<TensorEntry>& entries = model_.entries();
  const auto waits = [](const TensorEntry& entry) {
    return entry.usable && entry.state != TensorEntry::Figures::known;
  };
  while (!queue_.empty()) {
    const int first = queue_.front();
    queue_.erase(queue_.begin());
    if (waits(entries[first])) return first;
  }
  if (!measures_all_) return -1;
  return index_in(entries, true, waits);
}

void TensorsPanel::computeWanted() {
  scheduled_ = false;
  const std::vector<int> requested = model_.takeWanted();
  queue_.insert(queue_.end(), requested.begin(), requested.end());
  if (computing_) return;
  const int next = nextToMeasure();
  cancel_->setEnabled(next >= 0);
  if (next < 0) return;
  computing_ = true;
  const auto figures = [source = model_.entries()[next].source, format = format_, axis = axis_](const auto&) {
    bool sampled = false;
    const QuantSums sums = figuresOf(source, format, axis, &sampled);
    return std::pair(sums, sampled);
  };
  worker_.compute(this, figures, [this, next, generation = generation_](const auto& found) {
    computing_ = false;
    if (generation == generation_) {
      model_.setFigures(next, found.first, found.second);
      emit figuresChanged();
    }
    computeWanted();
  });
}

void TensorsPanel::cancel() {
  queue_.clear();
  measures_all_ = false;
  model_.setLazy(false);
  cancel_->setEnabled(false);
}

// The kind of the listed tensors, independent of the open run.
std::optional<Provenance> TensorsPanel::kind() const {
  return !model_.entries().empty() ? Provenance::measured_here : std::optional<Provenance>();
}

QString TensorsPanel::status() const {
  if (!error_.isEmpty() || model_.entries().empty()) return {};
  const std::size_t count = model_.entries().size();
  QString text = countedText(count, "tensor");
  const auto unread = std::ranges::count_if(
      model_.entries(), [](const TensorEntry& entry) { return !entry.usable && !entry.note.isEmpty(); });
  if (unread > 0) text += QString(", %1 not read (see their tool tips)").arg(unread);
  if (!path_.isEmpty()) text += QStringLiteral(", ") + QFileInfo(path_).fileName();
  return text;
}

ValueTable TensorsPanel::table() const {
  ValueTable table({"tensor", "type", "shape", "SQNR [dB]", "underflow [share]", "clipped [share]", "sampled"});
  for (const TensorEntry& entry : model_.entries()) {
    const bool known = entry.state == TensorEntry::Figures::known;
    const auto number = [known](double value) { return known ? table_value(value) : TableValue(); };
    table.add(entry.source.name().toStdString(), entry.source.dtype().toStdString(), entry.source.shape().toStdString(),
              number(entry.sqnr_db), number(entry.underflow_share), number(entry.clipped_share),
              known && entry.sampled);
  }
  return table;
}

}  // namespace moescope
