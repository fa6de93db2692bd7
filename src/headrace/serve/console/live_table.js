// Rows that change while they are looked at. Python sends what changed; order, search and the visible part are made here.
// A value is drawn as text and never as HTML. Only the rows in sight are in the page, so thousands of them stay smooth.
const LINE = 30;
export default {
  template: `
    <div class="hr-live">
      <div class="hr-live-bar">
        <input class="hr-input" type="search" v-model="wanted" @input="arrange" :placeholder="'Filter ' + noun"
               :aria-label="'Filter ' + noun" />
        <button type="button" class="hr-button" @click="hold" :aria-pressed="held ? 'true' : 'false'">
          {{ held ? 'Resume' : 'Pause' }}</button>
        <span class="hr-note" role="status">{{ told }}</span>
      </div>
      <div class="hr-live-box" ref="box" :style="{height: height + 'px'}" @scroll="look" tabindex="0" role="table"
           :aria-label="noun" :aria-rowcount="lines.length">
        <div class="hr-live-head" role="row" :style="grid">
          <button v-for="(c, i) in columns" :key="c.name" type="button" role="columnheader" :class="{n: c.number}"
                  :aria-sort="sorted === i ? (down ? 'descending' : 'ascending') : null" :title="c.title || c.name"
                  @click="sort(i)">{{ c.name }}{{ sorted === i ? (down ? ' ↓' : ' ↑') : '' }}</button>
        </div>
        <div v-if="!lines.length" class="hr-empty">{{ total ? 'None of the ' + noun + ' matches' : 'No ' + noun + ' yet' }}</div>
        <div :style="{height: lines.length * LINE + 'px', position: 'relative', minWidth: wide}">
          <div v-for="(row, i) in seen" :key="row.id" class="hr-live-line" role="row"
               :style="[grid, {top: (first + i) * LINE + 'px'}]">
            <div v-for="(c, j) in columns" :key="c.name + (row.turn[j] || 0)" role="cell" class="hr-live-cell"
                 :class="{n: c.number, dim: c.dim || row.values[j] === null, new: row.turn[j]}"
                 :title="shown(row.values[j])">{{ shown(row.values[j]) }}</div>
          </div>
        </div>
      </div>
    </div>`,
  props: { columns: Array, noun: String, most: Number, height: Number, keyed: Boolean, order: Number, down_first: Boolean },
  data() {
    return { wanted: '', held: false, sorted: this.order ?? null, down: !!this.down_first, lines: [], seen: [], first: 0,
             waiting: 0, total: 0, LINE };
  },
  computed: {
    grid() { return { gridTemplateColumns: this.columns.map((c) => c.width || 'minmax(112px, 1fr)').join(' '),
               minWidth: this.wide }; },
    wide() { return this.columns.reduce((sum, c) => sum + (parseInt((c.width || '112').replace(/\D*/, '')) || 112), 0) + 'px'; },
    told() {
      const found = this.wanted ? `${this.lines.length.toLocaleString('en')} of ` : '';
      const held = this.held ? `paused, ${this.waiting.toLocaleString('en')} waiting · ` : '';
      return `${held}${found}${this.total.toLocaleString('en')} ${this.noun}`;
    },
  },
  created() { this.rows = new Map(); this.late = []; this.timer = null; },
  beforeUnmount() { clearTimeout(this.timer); },
  mounted() { this.look(); },
  methods: {
    shown(value) { return value === null || value === undefined ? '–' : typeof value === 'number' ? this.figure(value) : String(value); },
    figure(value) { return Number.isInteger(value) ? value.toLocaleString('en') : value.toLocaleString('en', { maximumFractionDigits: 4 }); },
    // changes: [id, values] puts a row, [id, null] takes it away; fresh rows are marked when `mark` is set
    put(changes, mark) {
      if (this.held) { this.late.push([changes, mark]); this.waiting += changes.length;
        while (this.late.length > 500) this.waiting -= this.late.shift()[0].length;
        return; }
      for (const [id, values] of changes) {
        const old = this.rows.get(id);
        if (values === null) { this.rows.delete(id); continue; }
        const turn = values.map((value, j) => mark && (!old || old.values[j] !== value) ? (old?.turn[j] || 0) + 1 : 0);
        if (!this.keyed || (old && this.sorted === null)) this.rows.delete(id);
        this.rows.set(id, { id, values, turn });
      }
      while (this.rows.size > this.most) this.rows.delete(this.rows.keys().next().value);
      this.soon();
    },
    reset() { this.rows.clear(); this.late = []; this.waiting = 0; this.soon(); },
    hold() {
      this.held = !this.held;
      // What came before is shown now, and not a moment after: nothing may move while it is held.
      if (this.held && this.timer !== null) { clearTimeout(this.timer); this.timer = null; this.arrange(); }
      if (!this.held) { const late = this.late; this.late = []; this.waiting = 0;
        for (const [changes, mark] of late) this.put(changes, mark); }
    },
    sort(i) {
      if (this.sorted !== i) { this.sorted = i; this.down = !!this.columns[i].number; }
      else if (this.down === !!this.columns[i].number) this.down = !this.down;
      else { this.sorted = null; }
      this.arrange();
    },
    soon() { if (this.timer === null) this.timer = setTimeout(() => { this.timer = null; this.arrange(); }, 30); },
    arrange() {
      let lines = [...this.rows.values()];
      this.total = lines.length;
      const wanted = this.wanted.trim().toLowerCase();
      if (wanted) lines = lines.filter((row) => row.values.some((value) => this.shown(value).toLowerCase().includes(wanted)));
      if (this.sorted === null) { lines.reverse(); }
      else {
        const at = this.sorted, sign = this.down ? -1 : 1;
        lines.sort((a, b) => { const x = a.values[at], y = b.values[at];
          if (x === y) return 0; if (x === null) return 1; if (y === null) return -1;
          return sign * (typeof x === 'number' && typeof y === 'number' ? x - y : String(x) < String(y) ? -1 : 1); });
      }
      this.lines = Object.freeze(lines);
      this.look();
    },
    look() {
      const box = this.$refs.box;
      if (!box) return;
      this.first = Math.max(0, Math.floor(box.scrollTop / LINE) - 4);
      this.seen = Object.freeze(this.lines.slice(this.first, this.first + Math.ceil(box.clientHeight / LINE) + 8));
    },
  },
};
