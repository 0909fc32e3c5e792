(()=>{
const t=document.createElement('div');
t.className='tip';
t.hidden=true;
document.body.append(t);
for(const g of document.querySelectorAll('.h')){
const e=g.querySelector('title');
if(e){g.dataset.t=e.textContent;e.remove()}}
addEventListener('pointerover',e=>{
const g=e.target.closest?e.target.closest('.h'):null;
t.hidden=!g;
if(!g)return;
t.textContent=g.dataset.t;
const b=g.getBoundingClientRect(),w=t.offsetWidth,h=t.offsetHeight;
t.style.left=Math.max(6,Math.min(innerWidth-w-6,b.left+b.width/2-w/2))+'px';
t.style.top=(b.top-h-8<4?b.bottom+8:b.top-h-8)+'px'});
addEventListener('scroll',()=>{t.hidden=true},true);
for(const p of document.querySelectorAll('.command')){
const b=document.createElement('button');
b.className='copy';
b.type='button';
b.textContent='Copy';
b.onclick=async()=>{
try{await navigator.clipboard.writeText(p.textContent);b.textContent='Copied'}
catch{getSelection().selectAllChildren(p);
b.textContent=document.execCommand('copy')?'Copied':'Selected'}
setTimeout(()=>{b.textContent='Copy'},2e3)};
p.after(b)}
})()
