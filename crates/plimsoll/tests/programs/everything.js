// Objects, buffers, files, children and a thread of zlib. Prints a line for each.
const { execSync, spawnSync } = require('node:child_process');
const { createHash } = require('node:crypto');
const { readFileSync, writeFileSync } = require('node:fs');
const { gzip } = require('node:zlib');

const objects = Array.from({ length: 400000 }, (_, number) => ({ number, text: `x${number}` }));
console.log(objects.reduce((sum, { text }) => sum + text.length, 0));
const buffers = Array.from({ length: 80 }, (_, number) => Buffer.alloc(1 << 20, number));
writeFileSync('buffers', Buffer.concat(buffers));
console.log(createHash('sha256').update(readFileSync('buffers')).digest('hex'));
console.log(execSync('echo child').toString().trim());
console.log(spawnSync('sh', ['-c', 'cat | wc -c'], { input: buffers[3] }).stdout.toString().trim());
gzip(Buffer.concat(buffers.slice(0, 20)), (error, compressed) => {
  if (error) throw error;
  console.log('gzip', createHash('sha256').update(compressed).digest('hex'));
  console.log(objects.every(({ number, text }) => text === `x${number}`)
    && buffers.every((buffer, number) => buffer[777] === number));
});
