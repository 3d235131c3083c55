#include "widgets/microscaling/tensors_panel.h"

#include <QFileInfo>
#include <QHeaderView>
#include <QTimer>
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/files/tensors/open_tensors.h"
#include "widgets/look/type_scale.h"
#include "widgets/panel/format_text.h"

namespace moescope {
namespace {

constexpr std::size_t kMaxShownElements = std::size_t{1} << 20;  // of a tensor; a sample beyond

// Slice 0 of a tensor in one format.
QuantSums figuresOf(const TensorSource& source, const OperandFormat& format, BlockAxis axis, bool* sampled) {
  TensorSource::Sample sample = source.sample(0, kMaxShownElements);
  *sampled = !sample.whole || source.slices() > 1;
  QuantSums sums;
  std::vector<float> out(sample.values.size());
  for (std::size_t g = 0; g + 1 < sample.row_groups.size(); ++g) {
    const std::size_t first = sample.row_groups[g] * sample.cols,
                      rows = sample.row_groups[g + 1] - sample.row_groups[g];
    if (rows > 0)
      quantize_operand(format, {sample.values.data() + first, rows, sample.cols, sample.cols}, axis, {},
                       out.data() + first, sample.cols, &sums);
  }
  return sums;
}

// Of a file: its tensors, then scales of other tensors, then what cannot be read.
std::vector<TensorEntry> entriesOf(const std::shared_ptr<const TensorFile>& file) {
  std::vector<TensorEntry> entries;
  for (const bool scales : {false, true})
    for (std::size_t i = 0; i < file->tensors().size(); ++i) {
      const TensorView& tensor = file->tensors()[i];
      if ((tensor.holds == TensorView::Holds::scales) != scales) continue;
      TensorEntry& entry = entries.emplace_back();
      entry.source = TensorSource(file, i);
      entry.usable = tensor.floating() && tensor.holds != TensorView::Holds::codes && entry.source.valid();
      entry.note = QString::fromStdString(tensor.note);
    }
  for (const SkippedEntry& skipped : file->skipped())
    entries.push_back(
        {TensorSource::unread(QString::fromStdString(skipped.name)), false, QString::fromStdString(skipped.why)});
  return entries;
}

}  // namespace

TensorsPanel::TensorsPanel(Selection* selection, QWidget* parent)
    : Panel(selection, tr("Tensors"), Provenance::measured_here, parent) {
  makeControls();
  proxy_.setSourceModel(&model_);
  proxy_.setFilterKeyColumn(TensorListModel::kName);
  proxy_.setFilterCaseSensitivity(Qt::CaseInsensitive);
  view_ = new QTableView(this);
  view_->setModel(&proxy_);
  view_->setAccessibleName(title());
  view_->setSelectionBehavior(QAbstractItemView::SelectRows);
  view_->setSelectionMode(QAbstractItemView::SingleSelection);
  view_->verticalHeader()->hide();
  view_->setWordWrap(false);
  view_->setTextElideMode(Qt::ElideLeft);  // names differ at their ends
  followFont(view_, [this] { fitColumns(); });
  connect(view_->selectionModel(), &QItemSelectionModel::currentRowChanged, this, [this](const QModelIndex& index) {
    if (!index.isValid()) return;
    emit tensorChosen(model_.entries()[static_cast<std::size_t>(proxy_.mapToSource(index).row())].source);
  });
  connect(&model_, &TensorListModel::figuresWanted, this, [this] {
    if (!std::exchange(scheduled_, true)) QTimer::singleShot(0, this, &TensorsPanel::computeWanted);
  });
  addBody(filter_, 0);
  addBody(notice_);
  addBody(view_);
  showError({});
}

void TensorsPanel::fitColumns() {
  const QFontMetrics metrics = view_->fontMetrics();
  view_->verticalHeader()->setDefaultSectionSize(metrics.height() + 5);
  for (const int column :
       {TensorListModel::kType, TensorListModel::kSqnr, TensorListModel::kUnderflow, TensorListModel::kClipped})
    view_->setColumnWidth(column, metrics.horizontalAdvance(QStringLiteral("~0.004 %")) + 14);
  view_->setColumnWidth(TensorListModel::kShape, metrics.horizontalAdvance(QStringLiteral("4 x 2048 x 7168")) + 4);
  view_->setColumnWidth(TensorListModel::kName, withType(180, metrics));
}

void TensorsPanel::makeControls() {
  auto* open = new QToolButton(this);
  open->setText(tr("Open..."));
  open->setToolTip(
      tr("Open a file of tensors (.safetensors, .npy, .npz, .pt) or the index of a checkpoint; or drop one here"));
  connect(open, &QToolButton::clicked, this, &TensorsPanel::openRequested);
  progress_ = new QLabel(this);
  cancel_ = new QToolButton(this);
  cancel_->setText(tr("Cancel"));
  cancel_->setToolTip(tr("Stop computing figures"));
  cancel_->hide();
  connect(cancel_, &QToolButton::clicked, this, &TensorsPanel::cancel);
  addControl(progress_);
  addControl(cancel_);
  addControl(open);
  filter_ = new QLineEdit(this);
  filter_->setPlaceholderText(tr("Filter by name"));
  filter_->setAccessibleName(tr("Filter tensors by name"));
  filter_->setClearButtonEnabled(true);
  connect(filter_, &QLineEdit::textChanged, &proxy_, &QSortFilterProxyModel::setFilterFixedString);
  notice_ = new QLabel(this);
  notice_->setWordWrap(true);
  notice_->setAlignment(Qt::AlignCenter);
  notice_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  notice_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Expanding);
}

void TensorsPanel::showError(const QString& error) {
  error_ = error;
  const bool empty = model_.entries().empty();
  notice_->setText(error.isEmpty() ? tr("Open or drop a file of tensors: .safetensors, .npy, .pt") : error);
  notice_->setVisible(!error.isEmpty() || empty);
  view_->setVisible(error.isEmpty() && !empty);
  filter_->setVisible(view_->isVisibleTo(this));
}

bool TensorsPanel::openFile(const QString& path) {
  cancel();
  ++generation_;
  std::vector<TensorEntry> entries;
  QString error;
  try {
    entries = entriesOf(std::make_shared<const TensorFile>(open_tensors(path.toStdString())));
    if (entries.empty()) error = tr("%1 holds no tensors").arg(path);
  } catch (const std::exception& problem) {
    error = QString::fromStdString(problem.what());
  }
  path_ = path;
  model_.setEntries(std::move(entries));
  model_.setLazy(true);
  showError(error);
  update();
  if (!error.isEmpty()) {
    emit tensorChosen({});
    return false;
  }
  const auto usable = std::ranges::find(model_.entries(), true, &TensorEntry::usable);
  if (usable != model_.entries().end()) select(static_cast<int>(usable - model_.entries().begin()));
  return true;
}

void TensorsPanel::addTensor(const TensorSource& source) {
  ++generation_;
  std::vector<TensorEntry> entries = model_.entries();
  std::size_t at = 0;
  while (at < entries.size() && entries[at].source.name() != source.name()) ++at;
  if (at == entries.size()) entries.emplace_back();
  entries[at] = TensorEntry();
  entries[at].source = source;
  entries[at].usable = source.valid();
  for (TensorEntry& entry : entries) entry.state = TensorEntry::Figures::none;
  model_.setEntries(std::move(entries));
  showError({});
  select(static_cast<int>(at));
}

void TensorsPanel::removeTensor(const QString& name) {
  std::vector<TensorEntry> entries = model_.entries();
  if (std::erase_if(entries, [&](const TensorEntry& entry) { return entry.source.name() == name; }) == 0) return;
  ++generation_;
  queue_.clear();  // rows have other numbers now
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
}

void TensorsPanel::select(int tensor) {
  QModelIndex index = proxy_.mapFromSource(model_.index(tensor, 0));
  if (!index.isValid()) {  // filtered out
    filter_->clear();
    index = proxy_.mapFromSource(model_.index(tensor, 0));
  }
  if (index.isValid()) view_->setCurrentIndex(index);
}

bool TensorsPanel::selectNamed(const QString& name) {
  const std::vector<TensorEntry>& entries = model_.entries();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].source.name() != name) continue;
    select(static_cast<int>(i));
    return true;
  }
  return false;
}

void TensorsPanel::computeWanted() {
  scheduled_ = false;
  const std::vector<int> wanted = model_.takeWanted();
  queue_.insert(queue_.end(), wanted.begin(), wanted.end());
  cancel_->setVisible(!queue_.empty());
  progress_->setText(queue_.empty() ? QString() : tr("%1 to go").arg(queue_.size()));
  if (computing_ || queue_.empty()) return;
  computing_ = true;
  const int row = queue_.front();
  queue_.erase(queue_.begin());
  worker_.start([this, row, generation = generation_, source = model_.entries()[static_cast<std::size_t>(row)].source,
                 format = format_, axis = axis_](std::stop_token) {
    bool sampled = false;
    const QuantSums sums = figuresOf(source, format, axis, &sampled);
    QMetaObject::invokeMethod(
        this,
        [=, this] {
          computing_ = false;
          if (generation == generation_) model_.setFigures(row, sums, sampled);
          computeWanted();
        },
        Qt::QueuedConnection);
  });
}

void TensorsPanel::cancel() {
  queue_.clear();
  model_.setLazy(false);
  cancel_->hide();
  progress_->clear();
}

// Of the listed tensors, whatever run is open.
std::optional<Provenance> TensorsPanel::kind() const {
  return !model_.entries().empty() ? Provenance::measured_here : std::optional<Provenance>();
}

QString TensorsPanel::status() const {
  if (!error_.isEmpty() || model_.entries().empty()) return {};
  const std::size_t count = model_.entries().size();
  QString text = count == 1 ? tr("1 tensor") : tr("%1 tensors").arg(formatCount(static_cast<double>(count)));
  const auto unread = std::ranges::count_if(
      model_.entries(), [](const TensorEntry& entry) { return !entry.usable && !entry.note.isEmpty(); });
  if (unread > 0) text += tr(", %1 not read (see their tool tips)").arg(unread);
  if (!path_.isEmpty()) text = QFileInfo(path_).fileName() + QStringLiteral(", ") + text;
  return text;
}

QString TensorsPanel::csv() const {
  QString text = QStringLiteral("tensor,type,shape,sqnr_db,underflow_share,clipped_share,sampled\n");
  for (const TensorEntry& entry : model_.entries()) {
    const bool known = entry.state == TensorEntry::Figures::known;
    const auto number = [&](double v) { return known ? QString::number(v, 'g', 8) : QString(); };
    QString name = entry.source.name();
    name.replace(QLatin1Char('"'), QStringLiteral("\"\""));
    text += QStringLiteral("\"%1\",%2,%3,%4,%5,%6,%7\n")
                .arg(name, entry.source.dtype(), entry.source.shape(), number(entry.sqnr_db),
                     number(entry.underflow_share), number(entry.clipped_share))
                .arg(known && entry.sampled);
  }
  return text;
}

QString TensorsPanel::explain() const {
  return tr(
      "<p><b>Tensors of a file or of the run.</b> Files are .safetensors, NumPy's .npy and .npz, and what torch.save "
      "writes, of which nothing is run. Codes with scales beside them are shown as the weight that both make: "
      "F8_E4M3 x F32 of 128 x 128 has a scale for each tile. A file is mapped, not loaded: only what is shown is "
      "read. Figures are those of the chosen format, computed for the tensors in view; ~ marks a sample of large "
      "ones (a million values in tiles of 512 x 512, or the first matrix of several).</p>"
      "<p>SQNR, flushed to zero and clipped are defined as in What if. Integer tensors are listed only.</p>");
}

}  // namespace moescope
